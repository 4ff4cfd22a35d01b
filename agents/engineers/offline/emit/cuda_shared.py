"""CUDA for few long rows: several blocks share a row, and each pass over the rows is a kernel of its own.

What a pass reduces, every block leaves as a part in memory; the next kernel begins by joining the parts of its row, each block
for itself and all in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from agents.engineers.offline.emit.cuda_loops import OPERATIONS, START, THREADS, CudaEmitter, Launch
from agents.engineers.offline.ir import Store, Value

BLOCKS = 1056  # enough for a device of 132 multiprocessors to have eight each
SHORTEST = 2048  # numbers that are worth a block


class SharedRowEmitter(CudaEmitter):
    def launch(self) -> Launch:
        rows = math.prod(a.size for a in self.nest.outer)
        share = max(1, min(-(-BLOCKS // rows), self.length // SHORTEST))
        return Launch(rows * share, 1, THREADS)

    @property
    def length(self) -> int:
        """Numbers of a row."""
        return math.prod(a.size for a in self.nest.reduced)

    def kernels(self, launch: Launch, declared: str) -> list[tuple[str, int, int]]:
        nest, out = self.nest, self.out
        reduces = [v for v in nest.values if v.op == "reduce"]
        self.place = {value: k * launch.blocks for k, value in enumerate(reduces)}
        made = []
        for level in range(max(self.level[s.value] for s in nest.stores) + 1):
            here = [v for v in reduces if self.level[v.args[0]] == level]
            stores = [s for s in nest.stores if self.level[s.value] == level]
            if not here and not stores:
                continue
            made.append((f"{self.name}_pass{level + 1}", launch.blocks, THREADS))
            with out.block(f"static __global__ void __launch_bounds__({THREADS}) {made[-1][0]}({declared}) {{"):
                self.share(launch, here, stores)
            out()
        return made

    def parts(self, launch: Launch) -> int:
        """Numbers that the blocks leave."""
        return launch.blocks * sum(v.op == "reduce" for v in self.nest.values)

    def share(self, launch: Launch, reduces: Sequence[Value], stores: Sequence[Store]) -> None:
        """The body of one pass: the row's earlier results, then a block's part of the row."""
        nest, out, kind = self.nest, self.out, self.integer
        blocks = launch.blocks // math.prod(a.size for a in nest.outer)
        out(f"const {kind} item = blockIdx.x / {blocks}, turn = blockIdx.x % {blocks};")
        self.decode("item", nest.outer)
        roots = [*(v.args[0] for v in reduces), *(s.value for s in stores)]
        names: dict[Value, str] = {}
        for value in self.earlier(roots):
            part, names[value] = self.names.fresh("part"), self.names.fresh("all")
            operation = f"reduce::{OPERATIONS[value.fn]}"
            out(f"double {part} = {START[value.fn]};")
            with out.block(f"for (int block = threadIdx.x; block < {blocks}; block += {THREADS}) {{"):
                out(f"{part} = {operation}::combine({part}, parts[{self.place[value]} + item * {blocks} + block]);")
            out(f"const float {names[value]} = float(reduce::across<{operation}, {THREADS}>({part}));")
        done = set(nest.outer)
        inside = [s for s in stores if any(a in self.along for dim in s.dims for a in dim)]
        outside = [s for s in stores if s not in inside]
        if outside:
            self._emit_values([s.value for s in outside], done, names)
            with out.block("if (turn == 0 && threadIdx.x == 0) {"):
                self._write(outside, names)
        if not reduces and not inside:
            return
        for value in reduces:
            self.accumulators[value] = self.names.fresh("part")
            out(f"{'double' if value.fn == 'sum' else 'float'} {self.accumulators[value]} = {START[value.fn]};")
        self._emit_values(roots, done, names)
        at, length = self.names.fresh("at"), -(-self.length // blocks)
        out(f"const {kind} end = turn * {length} + {length} < {self.length} ? turn * {length} + {length} : {self.length};")
        out("#pragma unroll 4")
        with out.block(f"for ({kind} {at} = turn * {length} + threadIdx.x; {at} < end; {at} += {THREADS}) {{"):
            self.decode(at, nest.reduced)
            scope = dict(names)
            self._emit_values(roots, done | self.along, scope)
            for value in reduces:
                self.add(value, self.accumulators[value], scope)
            self._write(inside, scope)
        for value in reduces:
            self.leave(value, f"parts[{self.place[value]} + blockIdx.x]", THREADS)

    def earlier(self, roots: Sequence[Value]) -> list[Value]:
        """The reductions that `roots` are made from directly, in the nest's order."""
        found: set[Value] = set()
        seen: set[Value] = set()
        stack = list(roots)
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            if value.op == "reduce":
                found.add(value)
            else:
                stack.extend(value.args)
        return [v for v in self.nest.values if v in found]

    def says(self, launch: Launch) -> str:
        blocks = launch.blocks // math.prod(a.size for a in self.nest.outer)
        return f"Launch: {blocks} blocks share each row, {launch.blocks} in all, in one kernel for each pass over the rows."
