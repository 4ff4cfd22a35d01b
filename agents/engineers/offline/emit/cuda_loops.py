"""CUDA for a loop nest: a thread for each point, a warp or a block for each row, or a thread for each column of a row's sums.

A reduction must be complete before what depends on it starts, so values have levels and each level is one pass over the row,
whose later passes find it in cache. Sums are made in float64: on a constant row a mean that is off by one rounding would be
magnified by a normalisation. What becomes one number out of everything leaves each block as a part, and a last block of a
second kernel joins the parts, always in the same order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from agents.engineers.offline.emit.cuda_forms import form_of, tensors_of
from agents.engineers.offline.emit.loops import Kernel
from agents.engineers.offline.emit.text import comment
from agents.engineers.offline.emit.values import ValueWriter, c_type
from agents.engineers.offline.ir import Axis, Store, Value

THREADS = 256
UNROLL = 4  # points of one thread in flight
MOST_PARTS = 1024  # blocks that leave a part of one number
LARGEST = 2**31 - 1  # elements up to which 32-bit indices do
OPERATIONS = {"sum": "Sum", "top": "Top", "max": "Max", "min": "Min"}
START = {
    "sum": "0.0",
    "top": "-std::numeric_limits<float>::infinity()",
    "max": "-std::numeric_limits<float>::infinity()",
    "min": "std::numeric_limits<float>::infinity()",
}


@dataclass(frozen=True)
class Launch:
    """`items` of work, `each` of them in a block of `threads`; with at most `most` blocks a block goes on to further ones."""

    items: int
    each: int
    threads: int
    most: int = LARGEST

    @property
    def blocks(self) -> int:
        return min(self.most, -(-self.items // self.each))


class CudaEmitter(ValueWriter):
    def kernel(self, why: str) -> Kernel:
        nest, out = self.nest, self.out
        self.form = form_of(nest)
        self.along = set(nest.reduced)
        launch = self.launch()
        for line in comment(f"{why}\n{self.says(launch)}"):
            out(line)
        out('#include "cudamath.cuh"\n#include "reduce.cuh"\n')
        pointers = [(f"const {c_type(self.types(t))}* __restrict__", self.pointers[t]) for t in nest.loads]
        pointers += [(f"{c_type(self.types(s.name))}* __restrict__", self.targets[id(s)]) for s in nest.stores]
        parts = self.parts(launch)
        pointers += [("double* __restrict__", "parts")] if parts else []
        kernels = self.kernels(launch, ", ".join(f"{kind} {label}" for kind, label in pointers))
        labels = ", ".join(label for _, label in pointers)
        with out.block(f'extern "C" int {self.name}({", ".join(f"{k} {n}" for k, n in pointers)}, cudaStream_t stream) {{'):
            for kernel, blocks, threads in kernels:
                out(f"{kernel}<<<{blocks}, {threads}, 0, stream>>>({labels});")
            out("return int(cudaPeekAtLastError());")
        scratch = (2 * parts,) if parts else ()
        return Kernel(self.name, out.text(), tuple(nest.loads), tuple(s.name for s in nest.stores), scratch)

    def parts(self, launch: Launch) -> int:
        """Numbers that the blocks leave for a later kernel."""
        return len(self.tails) * launch.blocks

    def kernels(self, launch: Launch, declared: str) -> list[tuple[str, int, int]]:
        """Writes them; name, blocks and threads of each, in the order of their launches."""
        out, name = self.out, self.name
        made = [(f"{name}_kernel", launch.blocks, launch.threads)]
        with out.block(f"static __global__ void __launch_bounds__({launch.threads}) {name}_kernel({declared}) {{"):
            self.body(launch)
        out()
        if self.tails:
            made.append((f"{name}_join", 1, THREADS))
            with out.block(f"static __global__ void __launch_bounds__({THREADS}) {name}_join({declared}) {{"):
                self.join(launch)
            out()
        return made

    def launch(self) -> Launch:
        rows = math.prod(a.size for a in self.nest.outer)
        points = rows * math.prod(a.size for a in self.nest.kept)
        most = MOST_PARTS if self.tails else LARGEST
        if self.form == "points" and not self.tails:
            return Launch(points, THREADS * UNROLL, THREADS)
        if self.form in ("points", "columns"):
            return Launch(points, THREADS, THREADS, most)
        if self.form == "warps":
            return Launch(rows, THREADS // 32, THREADS, most)
        return Launch(rows, 1, self.row_threads, most)

    @property
    def row_threads(self) -> int:
        """Threads that share a row."""
        if self.form == "warps":
            return 32
        return 1024 if math.prod(a.size for a in self.nest.reduced) >= 16384 else THREADS

    def says(self, launch: Launch) -> str:
        form = {
            "points": "a thread for each point, and further ones"
            if self.tails
            else f"a thread for {UNROLL} points, {THREADS} apart, so that their loads are in flight together",
            "columns": "a thread for each sum, neighbours on neighbouring columns; each walks along what is summed",
            "warps": "a warp for each row",
            "blocks": f"a block of {launch.threads} threads for each row",
        }[self.form]
        return f"Launch: {launch.blocks} blocks; {form}."

    @property
    def integer(self) -> str:
        """The type of indices: 32 bits as long as every tensor has fewer elements."""
        sizes = [self.nest.elements]
        for tensor in tensors_of(self.nest):
            sizes.append(1 + sum((a.size - 1) * tensor.stride_of(a) for dim in tensor.dims for a in dim))
        return "int" if max(sizes) <= LARGEST else "long"

    def body(self, launch: Launch) -> None:
        out, nest = self.out, self.nest
        kind, axes = self.integer, [*nest.outer, *nest.kept]
        if self.form == "points" and not self.tails:
            out("#pragma unroll")
            with out.block(f"for (int lane = 0; lane < {UNROLL}; ++lane) {{"):
                out(f"const {kind} item = blockIdx.x * {kind}({launch.each}) + lane * {launch.threads} + threadIdx.x;")
                out(f"if (item >= {launch.items}) continue;")
                self.decode("item", axes)
                self.passes(set(axes))
            return
        thread = {"blocks": "0", "warps": "threadIdx.x / 32"}.get(self.form, "threadIdx.x")
        first = f"blockIdx.x * {kind}({launch.each}) + {thread}"
        for value in self.tails:
            self.accumulators[value] = self.names.fresh("total")
            out(f"double {self.accumulators[value]} = {START[value.fn]};")
        step = launch.blocks * launch.each
        if self.form == "points":
            out("#pragma unroll 4")
        with out.block(f"for ({kind} item = {first}; item < {launch.items}; item += {step}) {{"):
            self.decode("item", axes)
            self.passes(set(axes))
        for k, value in enumerate(self.tails):
            self.leave(value, f"parts[{k * launch.blocks} + blockIdx.x]", launch.threads)

    def leave(self, value: Value, place: str, threads: int) -> None:
        """The block's part of a number, in memory for the second kernel."""
        part = self.names.fresh("of_block")
        operation = f"reduce::{OPERATIONS[value.fn]}"
        self.out(f"const double {part} = reduce::across<{operation}, {threads}>({self.accumulators[value]});")
        self.out(f"if (threadIdx.x == 0) {place} = {part};")

    def join(self, launch: Launch) -> None:
        """All parts into one number, and what depends on it."""
        out, names = self.out, dict[Value, str]()
        for k, value in enumerate(self.tails):
            part, names[value] = self.names.fresh("part"), self.names.fresh("whole")
            operation = f"reduce::{OPERATIONS[value.fn]}"
            out(f"double {part} = {START[value.fn]};")
            with out.block(f"for (int block = threadIdx.x; block < {launch.blocks}; block += {THREADS}) {{"):
                out(f"{part} = {operation}::combine({part}, parts[{k * launch.blocks} + block]);")
            out(f"const float {names[value]} = float(reduce::across<{operation}, {THREADS}>({part}));")
        with out.block("if (threadIdx.x == 0) {"):
            for store in self.nest.stores:
                if store.value in self.tail_cone:
                    self._emit_values([store.value], set(), names)
                    out(f"{self.targets[id(store)]}[0] = {names[store.value]};")

    def decode(self, item: str, axes: list[Axis]) -> None:
        """Declares the index of every axis from a row-major position."""
        for k, axis in enumerate(axes):
            inner = math.prod(a.size for a in axes[k + 1 :])
            text = item if inner == 1 else f"{item} / {inner}"
            if k > 0:
                text = f"({text}) % {axis.size}" if inner > 1 else f"{item} % {axis.size}"
            self.out(f"const {self.integer} {self.index[axis]} = {text};")

    def passes(self, done: set[Axis]) -> None:
        nest = self.nest
        names: dict[Value, str] = {}
        reduces = [v for v in nest.values if v.op == "reduce" and v not in self.tails]
        apart = [s for s in nest.stores if s.value not in self.tail_cone]
        last = max([*(self.level[s.value] for s in apart), *(self.level[v.args[0]] for v in self.tails)])
        for level in range(last + 1):
            stores = [s for s in apart if self.level[s.value] == level]
            tails = [v for v in self.tails if self.level[v.args[0]] == level]
            inside = [s for s in stores if any(a in self.along for dim in s.dims for a in dim)]
            within = [v for v in tails if v.args[0].axes & self.along]
            outside, whole = [s for s in stores if s not in inside], [v for v in tails if v not in within]
            if outside or whole:
                self._emit_values([*(s.value for s in outside), *(v.args[0] for v in whole)], done, names)
                self.by_leader(outside, whole, names)
            here = [v for v in reduces if self.level[v.args[0]] == level]
            if here or inside or within:
                self.one_pass(here, inside, within, done, names)

    def add(self, value: Value, part: str, names: dict[Value, str]) -> None:
        self.out(f"{part} = reduce::{OPERATIONS[value.fn]}::combine({part}, {names[value.args[0]]});")

    def by_leader(self, stores: list[Store], tails: list[Value], names: dict[Value, str]) -> None:
        def act() -> None:
            self._write(stores, names)
            for value in tails:
                self.add(value, self.accumulators[value], names)

        if self.form in ("points", "columns"):
            act()
            return
        with self.out.block(f"if (threadIdx.x % {self.row_threads} == 0) {{"):
            act()

    def one_pass(
        self, reduces: list[Value], stores: list[Store], tails: list[Value], done: set[Axis], names: dict[Value, str]
    ) -> None:
        out, nest = self.out, self.nest
        parts = []
        for value in reduces:
            parts.append(self.names.fresh("part"))
            out(f"{'double' if value.fn == 'sum' else 'float'} {parts[-1]} = {START[value.fn]};")
        roots = [*(v.args[0] for v in (*reduces, *tails)), *(s.value for s in stores)]
        self._emit_values(roots, done, names)  # what is the same all along the row
        length = math.prod(a.size for a in nest.reduced)
        at = self.names.fresh("at")
        first, step = ("0", "1") if self.form == "columns" else (f"threadIdx.x % {self.row_threads}", str(self.row_threads))
        out("#pragma unroll 4")
        with out.block(f"for ({self.integer} {at} = {first}; {at} < {length}; {at} += {step}) {{"):
            self.decode(at, nest.reduced)
            scope = dict(names)
            self._emit_values(roots, done | self.along, scope)
            for value, part in zip(reduces, parts, strict=True):
                self.add(value, part, scope)
            for value in tails:
                self.add(value, self.accumulators[value], scope)
            self._write(stores, scope)
        for value, part in zip(reduces, parts, strict=True):
            names[value] = self.names.fresh("all")
            whole = part
            if self.form != "columns":
                whole = f"reduce::across<reduce::{OPERATIONS[value.fn]}, {self.row_threads}>({part})"
            out(f"const float {names[value]} = float({whole});")
