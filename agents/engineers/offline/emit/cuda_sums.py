"""CUDA for few sums over many numbers: blocks leave parts of them, small kernels join the parts in a fixed order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from agents.engineers.offline.emit.cuda_loops import OPERATIONS, START, SUMS, THREADS, CudaEmitter, Launch
from agents.engineers.offline.ir import Value

BLOCKS = (
    4224  # four times as many as 132 multiprocessors hold at once, so that the last ones to start are a small part of the time
)
SHORTEST = 16  # numbers for each thread that make a block worth it
JOINED = 4  # sums of a block that joins parts; its other threads share out the parts
LANES = THREADS // JOINED


class SumsEmitter(CudaEmitter):
    """`cells`: the points of the axes that are not reduced. A reduction has one sum for each."""

    known: Sequence[Value]  # what later kernels read, a number for each cell

    def launch(self) -> Launch:
        nest = self.nest
        self.columns = math.prod(a.size for a in nest.kept)
        self.cells = math.prod(a.size for a in nest.outer) * self.columns
        self.length = math.prod(a.size for a in nest.reduced)
        self.across = min(self.columns, THREADS) if nest.kept else 1  # columns of a block
        self.lanes = THREADS // self.across  # threads of a block that share a column
        self.tiles = -(-self.columns // self.across)
        blocks = self.cells // self.columns * self.tiles
        self.shares = max(1, min(-(-BLOCKS // blocks), self.length // (self.lanes * SHORTEST)))
        self.reduces = [v for v in nest.values if v.op == "reduce"]
        self.along = set(nest.reduced)
        self.wide = {}
        return Launch(blocks * self.shares, 1, THREADS)

    def scratch(self, launch: Launch) -> list[tuple[str, str, int]]:
        parts = ("double", "parts", len(self.reduces) * self.shares * self.cells)
        return [parts, ("float", "cells", len(self.known) * self.cells)] if self.known else [parts]

    def says(self, launch: Launch) -> str:
        sums = f"{self.cells} sums of {self.length} numbers each" if self.cells > 1 else f"a sum of {self.length} numbers"
        return f"Launch: {launch.blocks} blocks share {sums}, and a small kernel joins their parts"

    def kernels(self, launch: Launch, pointers: Sequence[tuple[str, str]]) -> None:
        last = max(self.level[v] for v in self.reduces)
        for level in range(1, last + 1):
            here = [v for v in self.reduces if self.level[v] == level]
            number = str(level) if last > 1 else ""
            with self.function(f"{self.name}_parts{number}", launch.blocks, THREADS, pointers):
                self.write_parts(here)
            with self.function(f"{self.name}_join{number}", -(-self.cells // JOINED), THREADS, pointers):
                self.join_parts(here, level)

    def place(self, value: Value, turn: str) -> str:
        """Where the part that share `turn` made of a reduction's sum of a cell lies."""
        first = self.reduces.index(value) * self.shares * self.cells
        offset = f"{first} + " if first else ""
        return f"parts[{offset}{turn} * {self.cells} + cell]"

    def cell(self, value: Value) -> str:
        first = self.known.index(value) * self.cells
        return f"cells[{first} + cell]" if first else "cells[cell]"

    def read_cells(self, roots: Iterable[Value], level: int) -> dict[Value, str]:
        """Names for what earlier kernels, up to `level`, made of what `roots` need."""
        names: dict[Value, str] = {}
        stack, seen = list(roots), set[Value]()
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in self.known and self.level[value] <= level:
                names[value] = self.names.fresh("known")
                self.out(f"const float {names[value]} = {self.cell(value)};")
            elif value.op != "reduce":
                stack.extend(value.args)
        return names

    def write_parts(self, reduces: Sequence[Value]) -> None:
        """A block's share of some sums."""
        nest, out, kind = self.nest, self.out, self.integer
        if nest.kept and self.lanes > 1:
            out(f"constexpr int THREADS = {THREADS};")
        tile = f"blockIdx.x / {self.tiles}" if self.tiles > 1 else "blockIdx.x"
        out(f"const {kind} item = blockIdx.x / {self.tiles * self.shares}, turn = {tile} % {self.shares};")
        self.decode("item", nest.outer)
        works = ""
        if nest.kept:
            column = f"threadIdx.x % {self.across}"
            if self.tiles > 1:
                column = f"blockIdx.x % {self.tiles} * {self.across} + {column}"
            out(f"const int lane = threadIdx.x / {self.across};")
            out(f"const {kind} column = {column}, cell = item * {self.columns} + column;")
            self.decode("column", nest.kept)
            tests = [f"lane < {self.lanes}"] if THREADS % self.across else []
            tests += [f"column < {self.columns}"] if self.columns % self.across else []
            works = " && ".join(tests)
        else:
            out("const int lane = threadIdx.x;")
            out(f"const {kind} cell = item;")
        for value in reduces:
            self.accumulators[value] = self.names.fresh("part")
            out(f"{'double' if value.fn in SUMS else 'float'} {self.accumulators[value]} = {START[value.fn]};")
        if works:
            out(f"const bool works = {works};")
            with out.block("if (works) {"):
                self.add_share(reduces)
        else:
            self.add_share(reduces)
        for value in reduces:
            place = self.place(value, "turn")
            if not nest.kept:
                self.leave(value, place, THREADS)
            elif self.lanes == 1:
                out(f"{'if (works) ' if works else ''}{place} = {self.accumulators[value]};")
            else:
                self.leave_column(value, place, works)

    def add_share(self, reduces: Sequence[Value]) -> None:
        nest, out, kind = self.nest, self.out, self.integer
        length, roots = -(-self.length // self.shares), [v.args[0] for v in reduces]
        walked = {*nest.outer, *nest.kept}
        names = self.read_cells(roots, self.level[reduces[0]] - 1)
        self._emit_values(roots, walked, names)
        out(f"const {kind} begin = turn * {length}, end = begin + {length} < {self.length} ? begin + {length} : {self.length};")
        out("#pragma unroll 4")
        with out.block(f"for ({kind} at = begin + lane; at < end; at += {self.lanes}) {{"):
            self.decode("at", nest.reduced)
            scope = dict(names)
            self._emit_values(roots, walked | self.along, scope)
            for value in reduces:
                self.add(value, self.accumulators[value], scope)

    def leave_column(self, value: Value, place: str, works: str) -> None:
        """The part of a block, from those of the threads that share a column."""
        out, part, operation = self.out, self.accumulators[value], f"reduce::{OPERATIONS[value.fn]}"
        lanes, whole = self.names.fresh("lanes"), self.names.fresh("of_block")
        out(f"__shared__ double {lanes}[THREADS];")
        out(f"{lanes}[threadIdx.x] = {part};")
        out("__syncthreads();")
        with out.block(f"if ({'works && ' if works else ''}lane == 0) {{"):
            out(f"double {whole} = {part};")
            with out.block(f"for (int other = 1; other < {self.lanes}; ++other) {{"):
                out(f"{whole} = {operation}::combine({whole}, {lanes}[other * {self.across} + threadIdx.x]);")
            out(f"{place} = {whole};")

    def join_parts(self, reduces: Sequence[Value], level: int) -> None:
        """All parts of each sum into one, and what depends on sums alone."""
        nest, out, kind, names = self.nest, self.out, self.integer, dict[Value, str]()
        out(f"constexpr int THREADS = {THREADS};")
        out(f"const int lane = threadIdx.x / {JOINED};")
        out(f"const {kind} cell = blockIdx.x * {JOINED} + threadIdx.x % {JOINED};")
        turns = f"cell < {self.cells} ? {self.shares} : 0" if self.cells % JOINED else str(self.shares)
        for value in reduces:
            operation = f"reduce::{OPERATIONS[value.fn]}"
            part, lanes = self.names.fresh("part"), self.names.fresh("lanes")
            out(f"__shared__ double {lanes}[THREADS];")
            out(f"double {part} = {START[value.fn]};")
            out("#pragma unroll 4")
            with out.block(f"for (int turn = lane, turns = {turns}; turn < turns; turn += {LANES}) {{"):
                out(f"{part} = {operation}::combine({part}, {self.place(value, 'turn')});")
            own = f"{lanes}[threadIdx.x]"
            out(f"{own} = {part};")
            out("__syncthreads();")
            with out.block(f"for (int half = {LANES // 2}; half > 0; half /= 2) {{"):
                out(f"if (lane < half) {own} = {operation}::combine({own}, {lanes}[threadIdx.x + half * {JOINED}]);")
                out("__syncthreads();")
            self.wide[value] = own
        out(f"if (lane > 0 || cell >= {self.cells}) return;")
        self.decode("cell", [*nest.outer, *nest.kept])
        names |= {value: f"float({self.wide[value]})" for value in reduces}
        made = [v for v in self.known if self.level[v] == level]
        stores = [s for s in nest.stores if max(self.level[s.value], 1) == level]
        roots = [*made, *(s.value for s in stores)]
        names |= self.read_cells(roots, level - 1)
        self._emit_values(roots, {*nest.outer, *nest.kept}, names)
        for value in made:
            out(f"{self.cell(value)} = {names[value]};")
        self._write(stores, names)
