"""CUDA for pointwise work between tensors of different layouts: tiles are turned around in shared memory.

A tile spans the axis along which the results are contiguous and the one along which some operands are. Threads read those
operands with neighbours on neighbouring numbers, meet, and go on with neighbours on neighbouring results, so every access to
memory is a whole line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from agents.engineers.offline.emit.cuda_forms import turn_of
from agents.engineers.offline.emit.cuda_loops import THREADS, CudaEmitter, Launch
from agents.engineers.offline.emit.expressions import C_TYPES
from agents.engineers.offline.ir import Value

TILE = 1024  # points, four for each thread
SIDE = 32  # of a tile, unless an axis is shorter


class TurnedEmitter(CudaEmitter):
    def launch(self) -> Launch:
        turn = turn_of(self.nest)
        assert turn is not None
        self.turn = turn
        fast, other = _power(turn.fast.size), _power(turn.other.size)
        self.width = min(fast, max(SIDE, TILE // min(other, SIDE)))  # of a tile along `fast`, and across
        self.height = TILE // self.width
        self.tiles = (-(-turn.fast.size // self.width), -(-turn.other.size // self.height))
        rest = math.prod(a.size for a in self.nest.outer if a not in (turn.fast, turn.other))
        return Launch(rest * self.tiles[0] * self.tiles[1], 1, THREADS)

    def says(self, launch: Launch) -> str:
        return (
            f"Launch: {launch.blocks} blocks of a tile of {self.height} × {self.width} numbers each, which shared memory turns "
            "around between tensors of different layouts."
        )

    def body(self, launch: Launch) -> None:
        out, turn, kind = self.out, self.turn, self.integer
        across, down = self.tiles
        out(f"constexpr int THREADS = {THREADS};")
        place: dict[Value, str] = {}
        for value in turn.turned:
            place[value] = self.names.fresh("tile")
            out(f"__shared__ {C_TYPES[value.kind]} {place[value]}[{self.height}][{self.width + 1}];")
        rest = [a for a in self.nest.outer if a not in (turn.fast, turn.other)]
        out(f"const {kind} item = blockIdx.x / {across * down};")
        self.decode("item", rest)
        first = f"blockIdx.x % {across} * {self.width}" if across > 1 else "0"
        above = f"blockIdx.x / {across} % {down} * {self.height}" if down > 1 else "0"
        out(f"const {kind} first = {first}, above = {above};")
        with self.points(f"at / {self.height}", f"at % {self.height}"):
            for value in turn.turned:
                at = self._address(value.args[0]) if value.window is not None else ""
                out(f"{place[value]}[row][column] = {self.read(value, at)};")
        out("__syncthreads();")
        with self.points(f"at % {self.width}", f"at / {self.width}"):
            names = {value: f"{place[value]}[row][column]" for value in turn.turned}
            self._emit_values([s.value for s in self.nest.stores], set(self.nest.outer), names)
            self._write(self.nest.stores, names)

    @contextmanager
    def points(self, column: str, row: str) -> Iterator[None]:
        """A loop over a thread's points of the tile, at `column` along `fast` and `row` along `other`."""
        out, turn, kind = self.out, self.turn, self.integer
        fast, other = self.index[turn.fast], self.index[turn.other]
        out("#pragma unroll")
        with out.block(f"for (int at = threadIdx.x; at < {TILE}; at += THREADS) {{"):
            out(f"const int column = {column}, row = {row};")
            out(f"const {kind} {fast} = first + column, {other} = above + row;")
            tests = [f"{fast} >= {turn.fast.size}"] if turn.fast.size % self.width else []
            tests += [f"{other} >= {turn.other.size}"] if turn.other.size % self.height else []
            if tests:
                out(f"if ({' || '.join(tests)}) continue;")
            yield


def _power(size: int) -> int:
    """The next power of 2."""
    return 1 << max(0, size - 1).bit_length()
