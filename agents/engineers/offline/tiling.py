"""How a product by fp16 terms is cut into tiles, and what it then takes: the arithmetic behind the choice.

The rates were measured on an H200 (docs/performance.md); other devices of its generation differ by their number of
multiprocessors and clocks alone, which moves every candidate alike.
"""

from __future__ import annotations

from typing import NamedTuple

from agents.engineers.offline.costs import Ceilings
from agents.engineers.offline.operands import Operands, Side

PANEL_ROWS, PANEL_K, PANEL_FLOATS, FLAG_FLOATS = 128, 64, 128 * 64, 32  # as in split.cuh and pack_half.cuh
PROCESSORS = 132
PANEL_S = {128: 1.0e-6, 64: 0.75e-6}  # a multiprocessor's time for a tile of 128 × so many columns and 64 along k
TILE_S = {128: 9.5e-6, 64: 4.8e-6}  # before the first and after the last panel of a tile, most of it for what follows the sums
LAUNCH_S = 3e-6  # a further kernel, on the device
MOST_PARTS = 8
PACKING = {True: 0.6, False: 0.25}  # of the bandwidth, that packing reaches where an operand lies along k, or across


class Sizes(NamedTuple):
    """A result of m × n, sums of k."""

    m: int
    n: int
    k: int


class Tiling(NamedTuple):
    """Tiles of 128 × `columns`; several blocks share a tile's sums, a part of K each; seconds that it should take."""

    columns: int
    parts: int
    seconds: float


def panels(count: int, size: int) -> int:
    return -(-count // size)


def distinct(side: Side, batch: tuple[int, int]) -> int:
    """Matrices of a batch that are packed."""
    return (batch[0] if side.outer else 1) * (batch[1] if side.inner else 1)


def packed_floats(side: Side, batch: tuple[int, int]) -> int:
    """As half_split::workspace_floats: two planes of 16-bit terms fill a float; and what undoes the scale of each row."""
    rows = panels(side.rows, PANEL_ROWS)
    return distinct(side, batch) * (rows * panels(side.depth, PANEL_K) * PANEL_FLOATS + rows * PANEL_ROWS)


def packing_s(side: Side, batch: tuple[int, int], ceilings: Ceilings) -> float:
    """Seconds that packing an operand takes, its launch aside."""
    read = distinct(side, batch) * side.rows * side.depth
    return 4 * (read + packed_floats(side, batch)) / (PACKING[side.along_k] * ceilings.bandwidth)


def tiling_of(operands: Operands, ceilings: Ceilings) -> Tiling:
    """The fastest way, packing included."""
    m, n, k = sizes_of(operands)
    batch = operands.matrices
    left, right = (packed_floats(side, operands.batch) for side in (operands.left, operands.right))
    result = batch * m * n
    packing = 2 * LAUNCH_S + sum(packing_s(side, operands.batch, ceilings) for side in (operands.left, operands.right))
    choices = []
    for columns in (128, 64):
        tiles = batch * panels(m, PANEL_ROWS) * panels(n, columns)
        for parts in range(1, min(MOST_PARTS, panels(k, PANEL_K)) + 1):
            waves = panels(tiles * parts, PROCESSORS)
            compute = waves * (panels(panels(k, PANEL_K), parts) * PANEL_S[columns] + TILE_S[columns]) + LAUNCH_S
            moved = 4 * (left + right + parts * result) / ceilings.bandwidth
            join = (4 * (parts + 1) * result / ceilings.bandwidth + LAUNCH_S) if parts > 1 else 0.0
            choices.append(Tiling(columns, parts, packing + max(compute, moved) + join))
    return min(choices, key=lambda choice: choice.seconds)


def sizes_of(operands: Operands) -> Sizes:
    return Sizes(operands.left.rows, operands.right.rows, operands.left.depth)


def workspace_floats(operands: Operands, tiling: Tiling) -> int:
    """What the kernel's workspace holds: the flag, both packed operands and, where there are several parts, as many results."""
    m, n, _ = sizes_of(operands)
    parts = tiling.parts * operands.matrices * m * n if tiling.parts > 1 else 0
    return FLAG_FLOATS + parts + sum(packed_floats(side, operands.batch) for side in (operands.left, operands.right))
