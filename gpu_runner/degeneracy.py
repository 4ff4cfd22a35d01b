"""Whether anything can be claimed on a reference: pure rules over what `probing` recorded of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpu_runner.contracts import Protocol
from gpu_runner.seen import ReferenceSeen
from gpu_runner.verdict import accepted, leaf_signal_error

LOST = 1e-4  # of a result: no tolerance on its size sees what varies less
TELLING = ("zeros", "constant", "first-input", "other-input", "half-batch", "other-weights")  # the plainest first
VANISHED = 1e-6  # of what an operation was given: rounding is all that is left


def nulls(seen: ReferenceSeen, protocol: Protocol) -> tuple[str, ...]:
    """Trivial programs that pass on a declared draw and on every structured one that was tried.

    Results for other inputs and for other weights were computed: they stand, whatever structured inputs would give.
    """
    passing: list[str] | None = None
    for draw in seen.nulls:
        signals = None if draw.variant else seen.signals
        fine = [name for name, numbers in draw.programs.items() if accepted(numbers, signals, protocol)]
        passing = fine if passing is None else [name for name in passing if name in fine or name.startswith("other-")]
    return tuple(passing or ())


def verifiable(seen: ReferenceSeen, protocol: Protocol) -> bool:
    """Whether eager's own rounding leaves the signal visible in at least one result (or there is an exact one)."""
    if not protocol.signal_error:
        return True
    visible = []
    for leaf, signal in zip(seen.own["leaves"], seen.signals, strict=False):
        if leaf.get("exact"):
            return True
        if leaf.get("rmse_eager") is None:
            continue
        error = leaf_signal_error(leaf, signal)
        limit = protocol.signal_error.get(leaf["dtype"][1], 0.05)
        visible.append(error is not None and error <= limit)
    return not visible or any(visible)


def cause(null: str, operations: Sequence[Mapping[str, Any]]) -> str:
    """The operation from which on a trivial program cannot be told from this one; empty where none is found.

    `operations`: what `child.tracing` saw, in order. The last ones that all show it count, of those the first.
    """
    tests: dict[str, Callable[[Mapping[str, Any]], bool]] = {
        "zeros": lambda row: row["rms"] <= VANISHED * row["given"],
        "constant": lambda row: row["spread"] <= LOST * row["rms"],
        "first-input": lambda row: row["same"] is True,
        "half-batch": lambda row: row["halves"] is not None and row["halves"] <= LOST * row["rms"],
        "other-input": lambda row: row["change"] <= LOST * row["rms"],
    }
    if not null:  # eager's own rounding hides what the inputs change: a difference of equals, or too little of it is left
        return cause("zeros", operations) or cause("other-input", operations)
    if null not in tests:
        return ""
    test, found = tests[null], ""
    for row in reversed(operations):
        if not test(row):
            break
        found = str(row["op"])[:120]
    return found


def inputs_constant(seen: ReferenceSeen) -> bool:
    """Whether two draws had the same content."""
    return len(seen.prints) > 1 and bool(seen.prints[0]) and seen.prints[0] == seen.prints[1]


def degenerate(seen: ReferenceSeen, protocol: Protocol) -> bool:
    """No speed is claimed on such a program."""
    return bool(nulls(seen, protocol)) or not verifiable(seen, protocol)
