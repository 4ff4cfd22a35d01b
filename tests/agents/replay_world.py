"""Runs rewritten programs whose forward is replayed as a CUDA graph, on a machine without a GPU.

The graph is played by a recorder that repeats every operator on the very tensors that it saw, which is what a real one does.
Prints one JSON object. Run as a script (it imports torch, which the tests must not).
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from agents.engineers.offline.coder import write_candidate
from agents.engineers.offline.replay import UNSEEN
from tests.agents.offline_programs import program

BODIES = {
    "plain": program("return torch.relu(x @ self.w) + y, x.sum()", "", "self.w = nn.Parameter(torch.randn(6, 6))", "x, y"),
    "batch norm": program("return self.n(x) + y.mean()", "", "self.n = nn.BatchNorm1d(6)", "x, y"),
    "returns its input": program("return x, x + y", "", "", "x, y"),
    "changes its input": program("x += 1\nreturn x * y.sum()", "", "", "x, y"),
    "counts": program("self.calls = self.calls + 1\nreturn x * self.calls + y.sum()", "", "self.calls = 0", "x, y"),
    "waits": program("return x * (2 if x.sum().item() > 0 else 3) + y.sum()", "", "", "x, y"),
}


class Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("operation not permitted when stream is capturing")
        result = func(*args, **(kwargs or {}))
        self.seen.append((func, args, kwargs or {}, result))
        return result


class FakeGraph:
    made = 0
    replays = 0

    def __init__(self) -> None:
        FakeGraph.made += 1
        self.recorder = Recorder()

    def replay(self) -> None:
        FakeGraph.replays += 1
        for func, args, kwargs, before in self.recorder.seen:
            if func.is_view:
                continue
            after = func(*args, **kwargs)
            for old, new in zip(tree_leaves(before), tree_leaves(after), strict=True):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


@contextmanager
def capturing(graph: FakeGraph, **_: Any) -> Iterator[None]:
    """Nothing happens while a graph is captured: what changed of the model is put back."""
    kept = {name: value.clone() for name, value in MODEL[0].state_dict().items()}
    try:
        with graph.recorder:
            yield
    finally:
        for name, value in MODEL[0].state_dict().items():
            value.copy_(kept[name])


MODEL: list[Any] = []


def load(name: str) -> tuple[Any, Any]:
    """The reference and the rewritten program with equal weights, in training mode as constructed."""
    source = BODIES[name]
    text = write_candidate(source, "Model", None, [UNSEEN], "as-constructed", "sm_90").files["model_new.py"]
    space: dict[str, Any] = {"__name__": "candidate"}
    exec(compile(text, "model_new.py", "exec"), space)
    space["_Replay"]._possible = staticmethod(lambda args: not torch.is_grad_enabled())
    torch.manual_seed(0)
    old = space["Model"]()
    new = space["ModelNew"]()
    new.load_state_dict(old.state_dict())
    MODEL[:] = [new]
    FakeGraph.made = FakeGraph.replays = 0
    return old, new


def inputs() -> list[Any]:
    return [torch.randn(5, 6), torch.randn(5, 6)]


def same(a: Any, b: Any) -> bool:
    return all(torch.allclose(x, y) for x, y in zip(tree_leaves(a), tree_leaves(b), strict=True))


def calls(old: Any, new: Any, count: int = 5) -> bool:
    """Whether both agree on fresh inputs, call after call, in results and in what they leave in the inputs and the state."""
    right = True
    for _ in range(count):
        args = inputs()
        others = [x.clone() for x in args]
        right &= same(old(*args), new(*others)) and same(args, others)
    return right and same(dict(old.state_dict()), dict(new.state_dict()))


def keeps_results(new: Any) -> bool:
    first = new(*inputs())
    before = [x.clone() for x in tree_leaves(first)]
    new(*inputs())
    return same(first, before)


def main() -> None:
    torch.cuda.CUDAGraph, torch.cuda.graph = FakeGraph, capturing  # type: ignore[misc,assignment]
    torch.cuda.current_stream = lambda *_: 0  # type: ignore[assignment,return-value]
    torch.cuda.synchronize = lambda *_: None  # type: ignore[assignment]
    answer: dict[str, Any] = {}
    with torch.no_grad():
        for name in BODIES:
            old, new = load(name)
            answer[name] = {"right": calls(old, new), "graphs": FakeGraph.made, "replays": FakeGraph.replays}
        old, new = load("plain")
        calls(old, new)
        answer["keeps results"] = keeps_results(new)
        for model in (old, new):
            model.w.mul_(3.0)
        answer["weights changed in place"] = calls(old, new) and FakeGraph.made == 1
        for model in (old, new):
            model.w = torch.nn.Parameter(torch.ones(6, 6))
        answer["weights replaced"] = calls(old, new) and FakeGraph.made == 2
        answer["other shapes"] = same(old(torch.ones(3, 6), torch.ones(6)), new(torch.ones(3, 6), torch.ones(6)))
        answer["by name"] = same(old(torch.ones(3, 6), y=torch.ones(6)), new(torch.ones(3, 6), y=torch.ones(6)))
        twin = copy.deepcopy(new)
        answer["copied"] = calls(old, twin)
        turned: Callable[[], Any] = lambda: torch.randn(6, 5).t()  # noqa: E731
        answer["turned inputs"] = all(same(old(x, x), new(x, x)) for x in (turned(), turned(), turned()))
    replays = FakeGraph.replays
    x = torch.randn(5, 6, requires_grad=True)
    answer["gradients"] = new(x, x)[0].requires_grad and FakeGraph.replays == replays
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
