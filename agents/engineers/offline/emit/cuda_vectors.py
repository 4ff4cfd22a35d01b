"""CUDA for a loop nest whose neighbours lie side by side: several of them in one access to memory, and indices once for all.

Every kernel is a template over W, the neighbours that a thread takes at once. The launcher looks where its tensors begin: one that
is a part of another may begin anywhere, and then W is 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from agents.engineers.offline.emit.cuda_forms import Form, tensors_of
from agents.engineers.offline.emit.cuda_loops import START, THREADS, UNROLL, CudaEmitter, Launch
from agents.engineers.offline.emit.expressions import C_TYPES
from agents.engineers.offline.emit.stages import CELL
from agents.engineers.offline.emit.values import hint
from agents.engineers.offline.ir import Axis, Nest, Store, Value

WIDTHS = (4, 2)
IDLE = 1.1  # of a row's numbers: what its threads may walk through, so that few of them have nothing to do


def width_of(nest: Nest, form: Form) -> int:
    """How many neighbours a thread takes at once; 1 where they do not lie side by side."""
    axes = {"points": nest.outer, "warps": nest.reduced, "blocks": nest.reduced}.get(form, [])
    if not axes:
        return 1
    for width in WIDTHS:
        if axes[-1].size % width == 0 and any(is_wide(nest, t, axes[-1], width) for t in tensors_of(nest)):
            if form == "points":
                return width
            length = math.prod(a.size for a in axes)
            threads = 32 if form == "warps" else THREADS
            if -(-length // (threads * width)) * threads * width <= max(IDLE * length, -(-length // threads) * threads):
                return width
    return 1


def is_wide(nest: Nest, tensor: Value | Store, axis: Axis, width: int) -> bool:
    """Whether every `width` neighbours along `axis` begin at a multiple of `width`, if the tensor does, and are all inside it."""
    kind = tensor.kind if isinstance(tensor, Value) else tensor.value.kind
    if kind == "int" or tensor.stride_of(axis) != 1:
        return False
    everything = (*nest.outer, *nest.reduced, *nest.kept)
    steps = [tensor.stride_of(a) for a in everything if a is not axis]
    if isinstance(tensor, Value):
        if tensor.op == "gather":
            steps.append(tensor.gather_stride)
            if axis in tensor.args[0].axes:
                return False
        if tensor.window is not None:
            first, size, stride = tensor.window.first, tensor.window.size, tensor.window.stride
            steps += [first * stride, *((first, size) if stride == 1 else ())]
    return all(step % width == 0 for step in steps)


class VectorEmitter(CudaEmitter):
    def launch(self) -> Launch:
        self.together = width_of(self.nest, self.form)
        self.axis = (self.nest.outer if self.form == "points" else self.nest.reduced)[-1]
        self.wide_at = [t for t in tensors_of(self.nest) if self.takes_wide(t)]
        first = super().launch()
        if self.form != "points":
            return first
        return Launch(first.items, THREADS * (self.together if self.tails else UNROLL), THREADS, first.most)

    def takes_wide(self, tensor: Value | Store) -> bool:
        if isinstance(tensor, Value) and tensor.tensor.startswith(CELL) and not self.aligned_cells:
            return False
        return is_wide(self.nest, tensor, self.axis, self.together)

    def says(self, launch: Launch) -> str:
        return f"{super().says(launch)} {self.together} neighbours are one access to memory, where the tensors' beginnings allow it."

    @property
    def watched(self) -> tuple[str, ...]:
        labels = [self.targets[id(t)] if isinstance(t, Store) else self.pointers[t.tensor] for t in self.wide_at
                  if isinstance(t, Store) or not t.tensor.startswith(CELL)]  # fmt: skip
        return tuple(dict.fromkeys(labels))

    @property
    def share(self) -> int:
        """As of the widest form, which has the longest."""
        length = math.prod(a.size for a in self.nest.reduced)
        return -(-length // (self.row_threads * self.together)) * self.together

    def held_size(self) -> str:
        length = math.prod(a.size for a in self.nest.reduced)
        self.out(f"constexpr int TURNS = ({length} / W + {self.row_threads - 1}) / {self.row_threads};")
        return "TURNS * W"

    # Points

    def body(self, launch: Launch) -> None:
        if self.form != "points":
            super().body(launch)
            return
        out, kind = self.out, self.integer
        if not self.tails:
            out("#pragma unroll")
            with out.block(f"for (int lane = 0; lane < {UNROLL} / W; ++lane) {{"):
                out(f"const {kind} item = blockIdx.x * {kind}({launch.each}) + (lane * {launch.threads} + threadIdx.x) * W;")
                out(f"if (item >= {launch.items}) continue;")
                self.decode("item", self.nest.outer)
                self.points()
            return
        for value in self.tails:
            self.accumulators[value] = self.names.fresh("total")
            out(f"double {self.accumulators[value]} = {START[value.fn]};")
        first, step = (f"({text}) * W" for text in (f"blockIdx.x * {kind}({THREADS}) + threadIdx.x", launch.blocks * THREADS))
        out("#pragma unroll 2")
        with out.block(f"for ({kind} item = {first}; item < {launch.items}; item += {step}) {{"):
            self.decode("item", self.nest.outer)
            self.points()
        for k, value in enumerate(self.tails):
            self.leave(value, f"parts[{k * launch.blocks} + blockIdx.x]", launch.threads)

    def points(self) -> None:
        """W neighbouring points."""
        stores = [s for s in self.nest.stores if s.value not in self.tail_cone]
        roots = [*(s.value for s in stores), *(v.args[0] for v in self.tails)]
        with self.neighbours(roots, stores, set(self.nest.outer), {}) as scope:
            for value in self.tails:
                self.add(value, self.accumulators[value], scope)

    # Rows

    def one_pass(
        self, reduces: list[Value], stores: list[Store], tails: list[Value], done: set[Axis], names: dict[Value, str]
    ) -> None:
        out = self.out
        parts = {value: self.begin_part(value) for value in reduces}
        roots = [*(v.args[0] for v in (*reduces, *tails)), *(s.value for s in stores)]
        self._emit_values(roots, done, names)  # what is the same all along the row
        exact = {a for v in self.nest.values if v.fn == "spread" for a in v.args}
        paired = [v for v in reduces if v.fn == "sum" and v not in exact]
        near = {v: self.names.fresh("near") for v in paired}
        with self.turns():
            for label in near.values():
                out(f"float {label}[W];")
            with self.neighbours(roots, stores, done | self.along, names) as scope:
                for value in reduces:
                    if value in near:
                        out(f"{near[value]}[{self.lane}] = {scope[value.args[0]]};")
                    else:
                        self.add(value, parts[value], scope)
                for value in tails:
                    self.add(value, self.accumulators[value], scope)
            for value, label in near.items():
                out(f"{parts[value]} += vectors::total({label});")
        for value, part in parts.items():
            self.end_part(value, part, names)

    @contextmanager
    def turns(self) -> Iterator[None]:
        """The loop over a thread's share of a row, W numbers at a time."""
        out, length, kind = self.out, math.prod(a.size for a in self.nest.reduced), self.integer
        at, thread = self.names.fresh("at"), f"threadIdx.x % {self.row_threads}"
        if self.held:
            self.turn = self.names.fresh("turn")
            out("#pragma unroll")
            head = f"for (int {self.turn} = 0; {self.turn} < TURNS; ++{self.turn}) {{"
        else:
            out("#pragma unroll 2")
            head = f"for ({kind} {at} = {thread} * W; {at} < {length}; {at} += {self.row_threads} * W) {{"
        with out.block(head):
            if self.held:
                out(f"const {kind} {at} = ({thread} + {self.turn} * {self.row_threads}) * W;")
                if length % (self.row_threads * self.together):
                    out(f"if ({at} >= {length}) continue;")
            self.decode(at, self.nest.reduced)
            yield

    # Neighbours

    @contextmanager
    def neighbours(
        self, roots: list[Value], stores: Iterable[Store], done: set[Axis], names: dict[Value, str]
    ) -> Iterator[dict[Value, str]]:
        """Reads, computes and writes W neighbours; yields inside the loop over them, where every root has a name."""
        out, axis, scope = self.out, self.axis, dict(names)
        for value in self.kept_already:
            scope[value] = f"{self.held[value]}[{self.turn} * W]"
        self._emit_values(roots, done - {axis}, scope)  # what is the same for all
        read = self.read_wide(roots, scope)
        written = {id(s): self.names.fresh("next") for s in stores if self.takes_wide(s)}
        for store in stores:
            if id(store) in written:
                out(f"{C_TYPES[store.value.kind]} {written[id(store)]}[W];")
        self.lane = self.names.fresh("k")
        out("#pragma unroll")
        first, own = self.index[axis], self.names.fresh(self.index[axis])
        with out.block(f"for (int {self.lane} = 0; {self.lane} < W; ++{self.lane}) {{"):
            out(f"const {self.integer} {own} = {first} + {self.lane};")
            self.index[axis] = own
            scope |= {value: f"{label}[{self.lane}]" for value, label in read.items()}
            held_at = f"{self.turn} * W + {self.lane}" if self.held else ""
            scope |= {value: f"{self.held[value]}[{held_at}]" for value in self.kept_already}
            self._emit_values(roots, done, scope)
            for value in [v for v in self.held if v in scope and v not in self.kept_already]:
                out(f"{self.held[value]}[{held_at}] = {scope[value]};")
                self.kept_already.add(value)
            yield scope
            for store in stores:
                if id(store) in written:
                    out(f"{written[id(store)]}[{self.lane}] = {scope[store.value]};")
                else:
                    self._write([store], scope)
        self.index[axis] = first
        for store in stores:
            if id(store) in written:
                out(f"vectors::write<W>({self.targets[id(store)]} + {self._address(store)}, {written[id(store)]});")

    def read_wide(self, roots: Iterable[Value], names: dict[Value, str]) -> dict[Value, str]:
        """Arrays of W neighbours for the loads that `roots` need and that have no names."""
        needed: set[Value] = set()
        stack = list(roots)
        while stack:
            value = stack.pop()
            if value not in needed and value not in names:
                needed.add(value)
                stack.extend(value.args if value.op != "reduce" else ())
        read: dict[Value, str] = {}
        for value in self.nest.values:
            if value not in needed or value.op not in ("load", "gather") or value not in self.wide_at:
                continue
            read[value] = self.names.fresh(hint(value, self.pointers))
            self.out(f"{C_TYPES[value.kind]} {read[value]}[W];")
            at, inside = f"{self.pointers[value.tensor]} + {self._address(value)}", ""
            if value.op == "gather":
                at += f" + {names[value.args[0]]} * {value.gather_stride}"
            if (window := value.window) is not None:
                place = self._address(value.args[0])
                inside = f"{place} >= {window.first} && " if window.first else ""
                inside += f"{place} < {window.first + window.size}, "
                at += f" - {window.first * window.stride}" if window.first else ""
            self.out(f"vectors::read<W>({inside}{at}, {read[value]});")
        return read
