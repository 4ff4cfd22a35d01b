"""What a thread keeps in registers of its share of a row, so that a later pass over the row needs not read or compute it again."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agents.engineers.offline.emit.expressions import EXPENSIVE
from agents.engineers.offline.ir import Axis, Value

LONGEST = 64  # numbers of a share: a loop over more is not unrolled
REGISTERS = {1024: 32, 512: 48}  # of a thread, for what is held; 64 where a block has fewer threads
FEWER_THREADS = 64


def held_values(
    values: Sequence[Value], needs: Sequence[Sequence[Value]], along: Collection[Axis], share: int, threads: int
) -> list[Value]:
    """Loads and expensive values that several passes need, as far as registers go: `share` of them for each value.

    `needs`: what each pass computes at every point of the row. What is held in one pass ends the search of the next ones, so of a
    softmax the row stays for the second pass and its exponentials for the third.
    """
    passes = [need for need in needs if need]
    if len(passes) < 2 or share > LONGEST:
        return []
    most = REGISTERS.get(threads, FEWER_THREADS) // share
    held: list[Value] = []
    for number, need in enumerate(passes[:-1]):
        here = _reached(need, along, held)
        later = set().union(*(_reached(other, along, held) for other in passes[number + 1 :]))
        wanted = [v for v in values if v in here and v in later and v not in held and _worth(v)]
        # A value that is held needs its operands no more, unless a pass between asks for them.
        expensive = [v for v in wanted if v.op == "call"]
        after = set().union(*(_reached(other, along, [*held, *expensive]) for other in passes[number + 1 :]))
        held += [v for v in wanted if v in expensive or v in after]
    if len(held) <= most:
        return held
    loads = [v for v in held if v.op == "load"]
    return loads if loads and len(loads) <= most else []


def _worth(value: Value) -> bool:
    return value.kind == "float" and (value.op == "load" or value.fn in EXPENSIVE)


def _reached(roots: Sequence[Value], along: Collection[Axis], held: Collection[Value]) -> set[Value]:
    """What varies along the row and is needed for `roots`, up to what is held already."""
    found: set[Value] = set()
    stack = list(roots)
    while stack:
        value = stack.pop()
        if value in found or not any(a in along for a in value.axes):
            continue
        found.add(value)
        if value.op != "reduce" and value not in held:
            stack.extend(value.args)
    return found
