"""`model_new.py`: the reference's modules, a loader for the kernels, and a forward that is one straight line of calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.engineers.offline.emit.calls import call, is_alias, settled
from agents.engineers.offline.emit.platform import CPU, Platform
from agents.engineers.offline.emit.reference import reference_body, title
from agents.engineers.offline.emit.text import Lines, Names, identifier
from agents.engineers.offline.graph import View, contiguous, is_contiguous
from gpu_runner.contracts import GraphInput, GraphNode, TensorSpec

REPLAY, HELD = (Path(__file__).with_name(f"{name}.py.txt") for name in ("replay", "held"))


@dataclass(frozen=True)
class Call:
    """A kernel in the forward: it does what `nodes` do, reads `inputs`, makes `outputs` (graph names, in pointer order).

    `scratch` lists float32 workspaces, in elements, that come after the outputs; on a GPU the stream comes last.
    """

    name: str
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    says: str
    scratch: tuple[int, ...] = ()


@dataclass
class _Step:
    nodes: tuple[str, ...]
    call: Call | None = None
    needs: set[str] = field(default_factory=set)


def write_model(
    source: str, entry: str, view: View | None, calls: Sequence[Call], mode: str, about: str, platform: Platform = CPU,
    replay: bool = False, rewritten: bool = True,
) -> str:  # fmt: skip
    """The text of `model_new.py`. `calls` do not share nodes, and each can run as one step.

    `replay`: as one CUDA graph. Unless `rewritten` that is a graph of the reference's own forward, which needs no `view`.
    """
    return _Host(source, entry, view, calls, mode, about, platform, replay, rewritten).text()


class _Host:
    def __init__(
        self, source: str, entry: str, view: View | None, calls: Sequence[Call], mode: str, about: str, platform: Platform,
        replay: bool, rewritten: bool,
    ) -> None:  # fmt: skip
        self.source, self.entry, self.calls, self.mode, self.about = source, entry, calls, mode, about
        self.platform, self.replay, self.rewritten = platform, replay, rewritten
        self._view = view
        self.names = Names(
            {"self", "torch", "F", "ctypes", "Path", "args", entry, "_kernels", "device", "held", "stream", "is_"}
        )
        self.python: dict[str, str] = {}
        self.workspace = ""  # on a GPU one for all kernels
        self.out = Lines()
        self.held: list[GraphInput] = []
        self.in_place: dict[str, GraphInput] = {}  # results of kernels that are written where a buffer lies
        self.counters: dict[str, GraphInput] = {}  # nodes that add 1 to a buffer
        if rewritten:
            self._changes()
            self.steps = self._schedule()
            used = {n for s in self.steps for n in s.needs} | {o.ref for o in self.view.graph.outputs if o.ref}
            self.used = used | {i.name for i in self.counters.values()}
            inputs = self.view.graph.inputs
            self.held = [i for i in inputs if i.kind in ("parameter", "buffer") and i.name in self.used and i.spec is not None]

    @property
    def view(self) -> View:
        if self._view is None:
            raise LookupError("kernels were planned on a program without a graph")
        return self._view

    def name(self, graph_name: str) -> str:
        if graph_name not in self.python:
            self.python[graph_name] = self.names.fresh(identifier(graph_name))
        return self.python[graph_name]

    def text(self) -> str:
        out = self.out
        heading = title(self.source) or self.entry
        out(f'"""{heading}, rewritten.')
        out()
        for line in self.about.splitlines():
            out(line)
        out('"""')
        out()
        if self.calls:
            out("import ctypes\nimport subprocess\nimport tempfile")
        if self.held:
            out("from operator import is_")
        if self.calls:
            out("from pathlib import Path")
        if self.calls or self.held:
            out()
        out("import torch\nimport torch.nn.functional as F")
        if self.replay:
            out("from torch.utils._pytree import tree_flatten, tree_unflatten")
        out()
        out("# The reference's own modules, so that parameters keep their names and other shapes keep working.\n")
        out(reference_body(self.source))
        out()
        if self.calls:
            out("\n" + self.platform.loader.strip("\n"))
            for one in {c.name: c for c in self.calls}.values():
                count = len(one.inputs) + len(one.outputs) + len(one.scratch) + bool(self.platform.stream)
                out(f"_kernels.{one.name}.argtypes = [ctypes.c_void_p] * {count}")
                out(f"_kernels.{one.name}.restype = {self.platform.answer}")
        if self.held:
            out("\n\n" + HELD.read_text().strip("\n").replace("RESIDENT", self.platform.resident))
        if self.replay:
            out("\n\n" + REPLAY.read_text().strip("\n"))
        out("\n")
        if self.rewritten:
            self._model()
        else:
            self._as_it_is()
        return out.text()

    def _as_it_is(self) -> None:
        """The reference's own forward, as a graph."""
        out = self.out
        with out.block(f"class ModelNew({self.entry}):", ""):
            out(f'"""{self.entry} with the same parameters and forward, started as one CUDA graph."""')
            out()
            self._init()
            self._replayed()

    def _init(self) -> None:
        out = self.out
        if not self.held and not self.replay:
            return
        with out.block("def __init__(self, *args, **kwargs):", ""):
            out("super().__init__(*args, **kwargs)")
            if self.held:
                read = {n for one in self.calls for n in one.inputs}
                with out.block("self._held = _Held(", ")"):
                    for i in self.held:
                        spec = _layout(i.spec) if i.name in read and i.spec is not None else None
                        out(f'("{i.target}", {spec}),')
            if self.replay:
                out("self._replay = _Replay()")
        out()

    def _replayed(self) -> None:
        out = self.out
        with out.block("def forward(self, *args, **named):", ""):
            out("if named:")
            out("    return super().forward(*args, **named)")
            out(f"return self._replay(self, {'self._straight' if self.rewritten else 'super().forward'}, args)")

    def _model(self) -> None:
        out, view = self.out, self.view
        inputs = [i for i in view.graph.inputs if i.kind == "input"]
        for i in inputs:
            self.name(i.name)
        with out.block(f"class ModelNew({self.entry}):", ""):
            out(
                f'"""{self.entry} with the same parameters; its forward is written for the shapes below and falls back for others."""'
            )
            out()
            self._init()
            if self.replay:
                self._replayed()
                out()
            arguments = ", ".join(["self", *(self.name(i.name) for i in inputs)])
            with out.block(f"def {'_straight' if self.replay else 'forward'}({arguments}):", ""):
                anchor = next((i for i in inputs if i.spec is not None), None)
                if self.platform.on and anchor is not None:
                    out(f"device = {self.name(anchor.name)}.device")
                constants = [
                    i for i in view.graph.inputs if i.kind == "constant" and i.name in self.used and i.spec is not None
                ]
                for i in constants:
                    if i.value is not None and i.spec is not None:
                        out(f"{self.name(i.name)} = torch.tensor({i.value!r}, dtype=torch.{i.spec.dtype}{self.platform.on})")
                    else:
                        out(f"{self.name(i.name)} = {_path(i.target)}")
                if self.held:
                    out("held = self._held(self)")
                self._guard(inputs, constants)
                names = [self.name(i.name) for i in self.held]
                if names:
                    out(f"[{', '.join(names)}] = held.weights")
                if self.calls and self.platform.stream:
                    out(f"stream = {self.platform.stream}")
                self._steps(self.steps)
                self._return()

    def _guard(self, inputs: Sequence[Any], held: Sequence[Any]) -> None:
        out = self.out
        tests = ["not torch.is_grad_enabled()", *(["held.fits"] if self.held else [])]
        if self.mode == "eval":
            tests.append("not self.training")
        elif self.mode == "train":
            tests.append("self.training")
        for i in inputs:
            if i.spec is None:
                tests.append(f"{self.name(i.name)} == {i.value!r}" if i.value is not None else f"{self.name(i.name)} is None")
            else:
                tests.append(_fits(self.name(i.name), i.spec, self.platform))
        read = {n for one in self.calls for n in one.inputs}
        for i in held:
            if i.name in read and i.value is None:
                tests.append(_fits(self.name(i.name), i.spec, self.platform))
        out("if not (  # other shapes, dtypes, layouts or modes, and training with gradients: the reference's way")
        out.depth += 1
        for k, test in enumerate(tests):
            out(test if k == 0 else f"and {test}")
        out.depth -= 1
        arguments = ", ".join(self.name(i.name) for i in inputs)
        with out.block("):", ""):
            out(f"return super().forward({arguments})")

    def _changes(self) -> None:
        """Which buffers change where they lie: running statistics by the kernel that reads them, counters all at once."""
        view = self.view
        buffers = {i.target: i for i in view.graph.inputs if i.kind == "buffer"}
        for output in view.graph.outputs:
            name, buffer = output.ref, buffers.get(output.target)
            if output.kind != "buffer_mutation" or buffer is None or name not in view.nodes or view.users[name]:
                continue
            if sum(o.ref == name for o in view.graph.outputs) > 1:
                continue
            node, readers = view.nodes[name], set(view.users[buffer.name])
            if node.target == "aten.add.Tensor" and node.args == ({"ref": buffer.name}, 1) and readers == {name}:
                self.counters[name] = buffer
            for one in self.calls:
                if self.platform.stream and name in one.outputs and buffer.name in one.inputs and readers <= set(one.nodes):
                    self.in_place[name] = buffer

    def _schedule(self) -> list[_Step]:
        """Nodes and kernel calls in an order in which each finds its operands; what nobody reads is left out."""
        view = self.view
        owner: dict[str, _Step] = {}
        steps: list[_Step] = []
        for one in self.calls:
            step = _Step(one.nodes, one, set(one.inputs))
            steps.append(step)
            for name in one.nodes:
                owner[name] = step
        for node in view.graph.nodes:
            if node.name not in owner:
                step = _Step((node.name,), None, set(view.operands(node)))
                steps.append(step)
                owner[node.name] = step
        alive: set[int] = set()
        stack = [owner[o.ref] for o in view.graph.outputs if o.ref in owner and o.ref not in self.counters]
        while stack:
            step = stack.pop()
            if id(step) not in alive:
                alive.add(id(step))
                stack.extend(owner[n] for n in step.needs if n in owner)
        steps = sorted((s for s in steps if id(s) in alive), key=lambda s: max(view.index[n] for n in s.nodes))
        ordered: list[_Step] = []
        placed: set[int] = set()

        def place(step: _Step) -> None:
            if id(step) in placed:
                return
            placed.add(id(step))
            for name in sorted(step.needs & owner.keys(), key=view.index.__getitem__):
                place(owner[name])
            ordered.append(step)

        for step in steps:
            place(step)
        return ordered

    def _steps(self, steps: list[_Step]) -> None:
        out, view = self.out, self.view
        last: dict[str, int] = {}
        roots: dict[str, str] = {}
        for k, step in enumerate(steps):
            for name in step.needs:
                last[roots.get(name, name)] = k
            node = view.nodes[step.nodes[0]]
            if step.call is None and is_alias(node):
                source = view.operands(node)[0]
                roots[node.name] = roots.get(source, source)
        escaping = {roots.get(o.ref, o.ref) for o in view.graph.outputs if o.ref}
        for k, step in enumerate(steps):
            if step.call is not None:
                self._kernel(step.call)
            else:
                self._torch(view.nodes[step.nodes[0]])
            dead = [n for n, when in last.items() if when == k and n in view.nodes and n not in escaping and self._large(n)]
            gone = [m for n in dead for m in (n, *(a for a, r in roots.items() if r == n)) if m in self.python]
            if gone and k + 1 < len(steps):
                out(f"del {', '.join(dict.fromkeys(self.name(n) for n in gone))}")

    def _large(self, name: str) -> bool:
        spec = self.view.spec(name)
        return spec is not None and spec.nbytes >= 1 << 16

    def _torch(self, node: GraphNode) -> None:
        text = call(node, self.name)
        spec = self.view.spec(node.name)
        if spec is not None and (not is_alias(node) or self._picked(node)):
            read = any(node.name in one.inputs for one in self.calls)
            text += ".contiguous()" if read and is_contiguous(spec) else settled(node)
        self.out(f"{self.name(node.name)} = {text}")

    def _picked(self, node: GraphNode) -> bool:
        """Whether the node takes a result of an operation that makes several."""
        return node.target == "getitem" and not is_alias(self.view.nodes[node.args[0]["ref"]])

    def _kernel(self, one: Call) -> None:
        out = self.out
        out(f"# {one.says}")
        for name in one.outputs:
            if name in self.in_place:
                continue
            out(f"{self.name(name)} = {_empty(self.view.tensor(name), self.platform)}")
        extra = []
        for size in one.scratch:
            if self.workspace:  # kernels of one stream take turns
                extra.append(self.workspace)
                continue
            workspace = self.names.fresh("workspace")
            if self.platform.stream:
                self.workspace, size = workspace, max(n for c in self.calls for n in c.scratch)
            out(f"{workspace} = torch.empty({size}{self.platform.on})")
            extra.append(workspace)
        outputs = [self.in_place[n].name if n in self.in_place else n for n in one.outputs]
        pointers = [f"{self.name(n)}.data_ptr()" for n in (*one.inputs, *outputs)] + [f"{w}.data_ptr()" for w in extra]
        pointers += ["stream"] if self.platform.stream else []
        line = f"_kernels.{one.name}({', '.join(pointers)})"
        if len(line) < 112:
            out(line)
        else:
            out(f"_kernels.{one.name}(")
            for pointer in pointers:
                out(f"    {pointer},")
            out(")")

    def _return(self) -> None:
        out, graph = self.out, self.view.graph
        results: list[str] = []
        counted = [self.name(i.name) for i in self.counters.values()]
        if len(counted) > 1:
            out(f"torch._foreach_add_([{', '.join(counted)}], 1)")
        elif counted:
            out(f"{counted[0]}.add_(1)")
        for output in graph.outputs:
            if output.kind == "buffer_mutation" and (output.ref in self.in_place or output.ref in self.counters):
                continue
            value = self.name(output.ref) if output.ref else repr(output.value)
            if output.kind == "result":
                results.append(value)
            elif output.kind == "buffer_mutation":
                out(f"{_path(output.target)}.copy_({value})")
            else:
                target = [i for i in graph.inputs if i.kind == "input"][int(output.target)]
                out(f"{self.name(target.name)}.copy_({value})")
        leaves = iter(results)

        def build(tree: Any) -> str:
            if tree == "*":
                return next(leaves)
            if isinstance(tree, dict):
                return "{" + ", ".join(f"{k!r}: {build(v)}" for k, v in tree.items()) + "}"
            inside = [build(t) for t in tree[1:]]
            if tree[0] == "list":
                return f"[{', '.join(inside)}]"
            return f"({', '.join(inside)}{',' if len(inside) == 1 else ''})"

        out(f"return {build(graph.tree)}")


def _path(target: str) -> str:
    """`self.layers[0].weight` for `layers.0.weight`, without the cost of Sequential's indexing."""
    text = "self"
    for part in target.split("."):
        text += f".{part}" if part.isidentifier() else f'._modules["{part}"]'
    return text


def _layout(spec: TensorSpec) -> str:
    """What `_Held` compares a weight with."""
    return f"({tuple(spec.shape)}, torch.{spec.dtype}, {None if is_contiguous(spec) else tuple(spec.stride)})"


def _fits(name: str, spec: TensorSpec, platform: Platform) -> str:
    layout = f"{name}.is_contiguous()" if is_contiguous(spec) else f"{name}.stride() == {tuple(spec.stride)}"
    return f"{name}.shape == {tuple(spec.shape)} and {name}.dtype is torch.{spec.dtype} and {layout} and {name}.{platform.resident}"


def _empty(spec: TensorSpec, platform: Platform) -> str:
    dtype = platform.on if spec.dtype == "float32" else f", dtype=torch.{spec.dtype}{platform.on}"
    if is_contiguous(spec) or spec.stride == contiguous(spec.shape):
        return f"torch.empty({tuple(spec.shape)}{dtype})"
    return f"torch.empty_strided({tuple(spec.shape)}, {tuple(spec.stride)}{dtype})"
