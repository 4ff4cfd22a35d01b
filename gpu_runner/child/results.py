"""The numbers of one result beside eager's and the truth: errors, misplaced NaNs, elements over the limit, ties of selections.

All in double precision, in chunks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from . import tensors

CHUNK = 1 << 16  # elements: three chunks in double precision stay in a common second-level cache
EAGER, TRUTH, CANDIDATE = range(3)
# A chunk in double precision for each of them: new memory costs more than the arithmetic.
_doubles: dict[int, torch.Tensor] = {}
FEW = 1024
SMALL_SHARE, SMALL_SAMPLE = 0.25, 1 << 14  # so many of a result below the screen's limit, seen in a sample, are looked at
LOST, KEPT = 0.5, 0.01  # of an element: what a program misses it by, where eager misses it by no more than that
TIE_ROUNDINGS = 4.0  # two values no further apart are a tie: each side rounds what it selects from


@dataclass
class _Measure:
    """Errors of one tensor against the truth, over the elements where all are finite."""

    squares: float = 0.0
    peak: float = 0.0

    def add(self, value: torch.Tensor, truth: torch.Tensor) -> None:
        """Both finite and in double precision; `value` is overwritten."""
        if value.numel():
            error = torch.sub(truth, value, out=value)
            self.squares += squares(error)
            self.peak = max(self.peak, *(abs(float(end)) for end in torch.aminmax(error)))


@dataclass
class _Ends:
    """The least and the largest of the elements, as long as they may be one."""

    low: float = math.inf
    high: float = -math.inf

    def add(self, t: torch.Tensor) -> None:
        # Hardly anything is constant, and then a few elements tell.
        for part in (t[:FEW], t):
            if part.numel() and not self.low < self.high:
                least, most = torch.aminmax(part)
                self.low, self.high = min(self.low, float(least)), max(self.high, float(most))


@dataclass
class Baseline:
    """Eager's numbers of one result, computed once however many programs are held against it. All tensors contiguous."""

    eager: torch.Tensor
    truth: torch.Tensor
    own_truth: bool
    unit: float | None = None  # what absolute errors are measured in, where it is not the result's RMS
    count: int = 0
    truth_squares: float = 0.0
    error: _Measure = field(default_factory=_Measure)
    finite: bool = True  # eager's
    whole: bool = True  # eager's and the truth's

    @classmethod
    def of(cls, eager: torch.Tensor, truth: torch.Tensor | None, unit: float | None = None) -> Baseline:
        own = truth is not None
        base = cls(flattened(eager), flattened(eager if truth is None else truth), own, unit)
        for e, t in base.chunks():
            truth_squares = squares(t)
            finite = _finite(t, truth_squares)
            base.finite = base.finite and (_finite(e, squares(e)) if own else finite)
            base.whole = base.whole and base.finite and finite
            if not base.whole:
                kept = torch.isfinite(e) & torch.isfinite(t)
                e, t = e[kept], t[kept]
                truth_squares = squares(t)
            base.count += t.numel()
            base.truth_squares += truth_squares
            if own:
                base.error.add(e, t)
        return base

    def chunks(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """(eager's, the truth's) elements in double precision, valid until the next chunk."""
        for start in range(0, self.eager.numel(), CHUNK):
            e = _double(self.eager[start : start + CHUNK], EAGER)
            yield e, _double(self.truth[start : start + CHUNK], TRUTH) if self.own_truth else e

    @property
    def scale(self) -> float:
        return self.rms if self.unit is None else self.unit

    @property
    def rms(self) -> float:
        return math.sqrt(self.truth_squares / self.count) if self.count else 0.0


def flattened(t: torch.Tensor) -> torch.Tensor:
    """One dimension of real numbers; a complex one counts as two."""
    return (torch.view_as_real(t) if t.is_complex() else t).reshape(-1)


def _double(t: torch.Tensor, slot: int) -> torch.Tensor:
    """A chunk in double precision, in the memory of its slot unless it is there already."""
    if t.dtype == torch.float64 and slot == TRUTH:  # of the three it alone is never written
        return t
    if slot not in _doubles:
        _doubles[slot] = torch.empty(CHUNK, dtype=torch.float64)
    return _doubles[slot][: t.numel()].copy_(t)


def _finite(t: torch.Tensor, total: float) -> bool:
    """Whether all elements are finite. Where the sum of their squares is, which costs least, they are."""
    return math.isfinite(total) or bool(torch.isfinite(t).all())


def squares(t: torch.Tensor) -> float:
    """The sum of the squares of a tensor in double precision, of one dimension."""
    return float(torch.dot(t, t))


def compare_leaf(
    candidate: Any, eager: Any, baseline: Baseline | None, rtol: float, ratio: float, slack: float = 0.0
) -> dict[str, Any]:
    """The numbers of one result. `baseline` is given for floating-point results.

    An element fails the screen when its error is above `rtol * (rms + |truth|)` and above `ratio` times eager's own largest
    error (`slack` stands in for that error where no fp64 truth is at hand).
    """
    if not isinstance(eager, torch.Tensor):
        return {"kind": "literal", "equal": not isinstance(candidate, torch.Tensor) and _same_literal(candidate, eager)}
    if not isinstance(candidate, torch.Tensor):
        return {"kind": "tensor", "missing": True}
    out: dict[str, Any] = {
        "kind": "tensor",
        "dtype": [tensors.dtype_name(candidate.dtype), tensors.dtype_name(eager.dtype)],
        "shape": [list(candidate.shape), list(eager.shape)],
        "numel": eager.numel(),
    }
    if candidate.shape != eager.shape or candidate.dtype != eager.dtype:
        return out
    if baseline is None:
        return out | _exact(candidate, eager)
    return out | _numbers(flattened(candidate), baseline, rtol, ratio, slack) | {"epsilon": torch.finfo(eager.dtype).eps}


def memory_format(shape: list[int], stride: list[int]) -> str:
    """ "contiguous", "channels last", or the strides in elements; of dimensions of one element none counts."""
    rank = len(shape)
    orders = {"contiguous": [*range(rank)]} | ({"channels last": [0, *range(2, rank), 1]} if rank in (4, 5) else {})
    for name, order in orders.items():
        step, fits = 1, True
        for dim in reversed(order):
            fits, step = fits and (shape[dim] == 1 or stride[dim] == step), step * shape[dim]
        if fits or 0 in shape:
            return name
    return f"strides {list(stride)}"


def _same_literal(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return math.isclose(a, b, rel_tol=1e-4) or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


def _exact(candidate: torch.Tensor, eager: torch.Tensor) -> dict[str, Any]:
    different = (candidate != eager).reshape(-1)
    count = int(different.sum())
    first = int(different.nonzero()[0]) if count else None
    constant = bool((candidate == candidate.reshape(-1)[0]).all()) if candidate.numel() else False
    return {"exact": True, "mismatches": count, "first": first, "constant": constant, "bits_equal": count == 0}


def _numbers(candidate: torch.Tensor, base: Baseline, rtol: float, ratio: float, slack: float) -> dict[str, Any]:
    error, nonfinite, counted, ends = _Measure(), 0, 0, _Ends()
    for number, (e, t) in enumerate(base.chunks()):
        c = _double(candidate[number * CHUNK : number * CHUNK + CHUNK], CANDIDATE)
        if not (base.whole and _finite(c, squares(c))):
            nonfinite += int(_misplaced(c, e))
            kept = torch.isfinite(c) & torch.isfinite(e) & torch.isfinite(t)
            c, t = c[kept], t[kept]
        counted += c.numel()
        ends.add(c)
        error.add(c, t)
    rms = base.rms
    allowed = ratio * max(base.error.peak, slack)
    failures, first, flat = (
        _screen(candidate, base, rtol, allowed) if error.peak > max(allowed, rtol * base.scale) else (0, None, False)
    )
    return {
        "rms": rms,
        "rmse": math.sqrt(error.squares / counted) if counted else 0.0,
        "rmse_eager": math.sqrt(base.error.squares / base.count) if base.own_truth and base.count else None,
        "max_error": error.peak,
        "max_error_eager": base.error.peak if base.own_truth else None,
        "nonfinite": nonfinite,
        "finite": base.finite,
        "failures": failures,
        "first": first,
        "flat": flat,
        "constant": counted > 1 and ends.low == ends.high,
        "zero": counted > 0 and ends.low == ends.high == 0.0,
        "bits_equal": torch.equal(candidate, base.eager),
    } | _small(candidate, base, rtol * base.scale)


def _misplaced(c: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    same = torch.where(torch.isfinite(e), torch.isfinite(c), (torch.isnan(c) & torch.isnan(e)) | (c == e))
    return (~same).sum()


def _screen(candidate: torch.Tensor, base: Baseline, rtol: float, allowed: float) -> tuple[int, int | None, bool]:
    """(wrong elements, the first of them, whether all of them hold one value)."""
    failures, first, scale, ends = 0, None, base.scale, _Ends()
    for number, (e, t) in enumerate(base.chunks()):
        c = _double(candidate[number * CHUNK : number * CHUNK + CHUNK], CANDIDATE)
        bad = ((t - c).abs() > (rtol * (scale + t.abs())).clamp_min(allowed)) & torch.isfinite(e) & torch.isfinite(t)
        count = int(bad.sum())
        if count and first is None:
            first = number * CHUNK + int(bad.nonzero()[0])
        ends.add(c[bad])
        failures += count
    return failures, first, ends.low == ends.high


def _small(candidate: torch.Tensor, base: Baseline, limit: float) -> dict[str, Any]:
    """How the elements fare that are too small for the screen to see, below `limit`: where a result spans many orders of
    magnitude, that is most of it.

    `small`: how many. `small_error`, `small_error_eager`: RMS of their errors over what they are, each at most 1. `lost`: those
    off by more than half of what they are where eager is right. Nothing where there is no truth but eager's own, whose noise
    after a cancellation is nobody's duty.
    """
    found = {"small": 0, "lost": 0, "small_error": 0.0, "small_error_eager": 0.0}
    sample = base.truth[:: max(1, base.truth.numel() // SMALL_SAMPLE)].double().abs()
    if (
        not base.own_truth
        or base.unit is not None
        or not float(((sample > 0) & (sample < limit)).double().mean()) >= SMALL_SHARE
    ):
        return found
    least = torch.finfo(base.eager.dtype).tiny
    mine = theirs = 0.0
    for number, (e, t) in enumerate(base.chunks()):
        c, size = _double(candidate[number * CHUNK : number * CHUNK + CHUNK], CANDIDATE), t.abs()
        at = (size > least) & (size < limit)
        size, t = size[at], t[at]
        off, eager_off = (((t - x[at]).abs() / size).nan_to_num(1.0).clamp_max(1.0) for x in (c, e))
        found["small"] += t.numel()
        found["lost"] += int(((off > LOST) & (eager_off <= KEPT)).sum())
        mine, theirs = mine + squares(off), theirs + squares(eager_off)
    if found["small"]:
        found["small_error"], found["small_error_eager"] = (math.sqrt(x / found["small"]) for x in (mine, theirs))
    return found


def ties(candidate: torch.Tensor, eager: torch.Tensor, source: torch.Tensor, dim: int, several: bool) -> int:
    """How many differing indices select the same value as eager's, up to a few roundings of it; none of a selection of several
    that takes one element twice."""
    moved = source.double().movedim(dim, -1)
    length = moved.shape[-1]
    taken = int(eager.numel() // max(1, moved[..., 0].numel()))
    if length == 0 or taken * moved[..., 0].numel() != eager.numel() or (taken != 1 and not several):
        return 0

    def rows(indices: torch.Tensor) -> torch.Tensor:
        shaped = indices.movedim(dim, -1) if several else indices
        return shaped.reshape(-1, taken).long()

    mine, theirs, values = rows(candidate), rows(eager), moved.reshape(-1, length)
    inside = ((mine >= 0) & (mine < length)).all(-1, keepdim=True)
    mine = mine.clamp(0, length - 1)
    chosen, wanted = values.gather(1, mine), values.gather(1, theirs)
    allowed = TIE_ROUNDINGS * (torch.finfo(source.dtype).eps if source.is_floating_point() else 0.0) * wanted.abs()
    same = ((chosen - wanted).abs() <= allowed) | (chosen == wanted) | (chosen.isnan() & wanted.isnan())
    ordered = mine.sort(-1).values
    once = (ordered[:, 1:] != ordered[:, :-1]).all(-1, keepdim=True)
    return int(((mine != theirs) & same & inside & once).sum())


def differing(a: torch.Tensor, b: torch.Tensor) -> int:
    """How many elements are not the same number; NaN is NaN's."""
    return int(((a != b) & ~((a != a) & (b != b))).sum())
