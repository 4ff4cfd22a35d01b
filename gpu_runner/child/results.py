"""The numbers of one result beside eager's and the truth: errors, misplaced NaNs, elements over the limit.

All in double precision, in blocks, each read once: what is the same for eager and the truth is computed on the way to a
program's numbers. Sums are of blocks, in the order of the blocks.
"""

from __future__ import annotations

import ctypes
import functools
import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from . import tensors

CHUNK = 1 << 16  # elements of a block: two in double precision and what they were read from stay in a common second-level cache
EAGER, TRUTH, CANDIDATE = range(3)
FEW = 1024
SMALL_SHARE, SMALL_SAMPLE = 0.25, 1 << 14  # so many of a result below the screen's limit, seen in a sample, are looked at
LOST, KEPT = 0.5, 0.01  # of an element: what a program misses it by, where eager misses it by no more than that
# A block in double precision for each of the three: new memory costs more than the arithmetic.
_doubles: dict[int, torch.Tensor] = {}
_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


@dataclass
class _Measure:
    """Errors of `count` elements against the truth, those where all are finite."""

    count: int = 0
    squares: float = 0.0
    peak: float = 0.0

    @classmethod
    def of(cls, error: torch.Tensor, total: float | None = None) -> _Measure:
        """Of one dimension, finite, in double precision. `total`: the sum of its squares, where it is known."""
        if not error.numel():
            return cls()
        low, high = torch.aminmax(error)
        return cls(error.numel(), squares(error) if total is None else total, max(abs(float(low)), abs(float(high))))

    @classmethod
    def together(cls, parts: Iterable[_Measure]) -> _Measure:
        whole = cls()
        for part in parts:
            whole.count += part.count
            whole.squares += part.squares
            whole.peak = max(whole.peak, part.peak)
        return whole


@dataclass
class _Ends:
    """The least and the largest of the elements, as long as they may be one."""

    low: float = math.inf
    high: float = -math.inf

    @classmethod
    def of(cls, t: torch.Tensor) -> _Ends:
        # Hardly anything is constant, and then a few elements tell.
        ends = cls()
        for part in (t[:FEW], t):
            if part.numel() and not ends.low < ends.high:
                least, most = torch.aminmax(part)
                ends = cls(min(ends.low, float(least)), max(ends.high, float(most)))
        return ends

    @classmethod
    def together(cls, parts: Iterable[_Ends]) -> _Ends:
        found = [*parts]
        return cls(min((part.low for part in found), default=math.inf), max((part.high for part in found), default=-math.inf))


@dataclass
class _Common:
    """One block of eager and the truth: the sum of the truth's squares over the elements where both are finite, eager's error
    there, whether all of eager's are, and all of both."""

    truth_squares: float
    error: _Measure
    finite: bool
    whole: bool


@dataclass
class _Mine:
    """One block of a program: its error, misplaced NaNs and infinities, its ends, and whether all of it and of eager and the
    truth is finite."""

    error: _Measure
    nonfinite: int
    ends: _Ends
    finite: bool


class Baseline:
    """Eager and the truth of one result, and what is computed of them once, however many programs are held against them."""

    def __init__(self, eager: torch.Tensor, truth: torch.Tensor | None, unit: float | None = None) -> None:
        """`unit`: what absolute errors are measured in, where it is not the result's RMS."""
        self.eager = flattened(eager)
        self.truth = self.eager if truth is None else flattened(truth)
        self.own_truth, self.unit = truth is not None, unit
        self.blocks = -(-self.eager.numel() // CHUNK)
        self.known: list[_Common] = []
        self.error, self.truth_squares, self.finite = _Measure(), 0.0, True

    def learn(self, parts: list[_Common]) -> None:
        """What is common to all programs, of every block."""
        self.known = parts
        self.error = _Measure.together(part.error for part in parts)
        self.truth_squares = _total(part.truth_squares for part in parts)
        self.finite = all(part.finite for part in parts)

    def pair(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(eager's, the truth's) elements of a block in double precision, valid until the next block."""
        e = _double(_block(self.eager, number), EAGER)
        return e, _double(_block(self.truth, number), TRUTH) if self.own_truth else e

    def common(self, number: int) -> _Common:
        """The numbers of one block."""
        e, t = self.pair(number)
        if not self.own_truth:
            total = squares(t)
            whole = _finite(t, total)
            kept = t if whole else t[torch.isfinite(t)]
            return _Common(total if whole else squares(kept), _Measure(kept.numel()), whole, whole)
        error = torch.sub(t, e, out=e)
        total = squares(error)
        if math.isfinite(total):  # then every error is, and so are both that it lies between
            return _Common(squares(t), _Measure.of(error, total), True, True)
        e, t = self.pair(number)
        finite, kept = torch.isfinite(e), torch.isfinite(e) & torch.isfinite(t)
        e, t = e[kept], t[kept]
        return _Common(squares(t), _Measure.of(t - e), bool(finite.all()), bool(kept.all()))

    @property
    def scale(self) -> float:
        return self.rms if self.unit is None else self.unit

    @property
    def rms(self) -> float:
        return math.sqrt(self.truth_squares / self.error.count) if self.error.count else 0.0


def flattened(t: torch.Tensor) -> torch.Tensor:
    """One dimension of real numbers, contiguous; a complex one counts as two."""
    return (torch.view_as_real(t) if t.is_complex() else t).reshape(-1).contiguous()


def _block(t: torch.Tensor, number: int) -> torch.Tensor:
    return t if t.numel() <= CHUNK else t[number * CHUNK : number * CHUNK + CHUNK]


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two contiguous tensors of one shape and dtype hold the same bytes."""
    return bool(_memcmp(a.data_ptr(), b.data_ptr(), a.numel() * a.element_size()) == 0)


def _total(numbers: Iterable[Any]) -> Any:
    """One after the other; the built-in `sum` rounds otherwise since Python 3.12."""
    return functools.reduce(operator.add, numbers, 0)


def _double(t: torch.Tensor, slot: int) -> torch.Tensor:
    """A block in double precision, in the memory of its slot unless it is there already."""
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


def mean(t: torch.Tensor) -> float:
    """The mean of a floating-point tensor with elements, those that are not finite counted as zero."""
    flat = flattened(t)

    def look(number: int) -> float:
        return float(_double(_block(flat, number), EAGER).nan_to_num(0.0, 0.0, 0.0).sum())

    return float(_total([look(number) for number in range(-(-flat.numel() // CHUNK))])) / flat.numel()


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


def _same_literal(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return math.isclose(a, b, rel_tol=1e-4) or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


def _exact(candidate: torch.Tensor, eager: torch.Tensor) -> dict[str, Any]:
    mine, theirs = candidate.reshape(-1).contiguous(), eager.reshape(-1).contiguous()
    constant = mine.numel() > 0

    def look(number: int) -> tuple[int, int | None]:
        nonlocal constant
        c, e = _block(mine, number), _block(theirs, number)
        constant = constant and _all_are(c[:FEW], mine[0]) and _all_are(c, mine[0])
        if _same_bytes(c, e):
            return 0, None
        different = c != e
        count = int(different.sum())
        return count, number * CHUNK + int(different.nonzero()[0]) if count else None

    found = [look(number) for number in range(-(-mine.numel() // CHUNK))]
    count = sum(different for different, _ in found)
    first = next((at for _, at in found if at is not None), None)
    return {"exact": True, "mismatches": count, "first": first, "constant": constant, "bits_equal": count == 0}


def _all_are(t: torch.Tensor, value: torch.Tensor) -> bool:
    return bool((t == value).all())


def _numbers(candidate: torch.Tensor, base: Baseline, rtol: float, ratio: float, slack: float) -> dict[str, Any]:
    new = not base.known
    all_equal = True

    def look(number: int) -> tuple[_Common, _Mine]:
        nonlocal all_equal
        c, e = _block(candidate, number), _block(base.eager, number)
        common = base.common(number) if new else base.known[number]
        same = _same_bytes(c, e)
        all_equal = all_equal and ((same and common.whole) or torch.equal(c, e))
        if same:  # no element is misplaced, and the errors are eager's
            kept = c if common.whole else (at := _double(c, CANDIDATE))[torch.isfinite(at) & _finite_truth(base, number)]
            ends = _ends(kept)
            return common, _Mine(common.error, 0, ends, common.whole)
        return common, _apart(c, base, number, common.whole)

    found = [look(number) for number in range(base.blocks)]
    if new:
        base.learn([common for common, _ in found])
    mine = [part for _, part in found]
    error, ends = _Measure.together(part.error for part in mine), _Ends.together(part.ends for part in mine)
    rms, counted = base.rms, error.count
    allowed = ratio * max(base.error.peak, slack)
    limit = max(allowed, rtol * base.scale)
    seen = [number for number, part in enumerate(mine) if part.error.peak > limit or not part.finite]
    failures, first, flat = _screen(candidate, base, seen, rtol, allowed) if error.peak > limit else (0, None, False)
    return {
        "rms": rms,
        "rmse": math.sqrt(error.squares / counted) if counted else 0.0,
        "rmse_eager": math.sqrt(base.error.squares / base.error.count) if base.own_truth and base.error.count else None,
        "max_error": error.peak,
        "max_error_eager": base.error.peak if base.own_truth else None,
        "nonfinite": sum(part.nonfinite for part in mine),
        "finite": base.finite,
        "failures": failures,
        "first": first,
        "flat": flat,
        "constant": counted > 1 and ends.low == ends.high,
        "zero": counted > 0 and ends.low == ends.high == 0.0,
        "bits_equal": all_equal,
    } | _small(candidate, base, rtol * base.scale)


def _apart(candidate: torch.Tensor, base: Baseline, number: int, whole: bool) -> _Mine:
    """The numbers of a block of a program, of which `whole` says whether all of eager's and the truth's elements are finite."""
    if whole:
        t, c = _double(_block(base.truth, number), TRUTH), _double(candidate, CANDIDATE)
        error = torch.sub(t, c, out=c)
        total = squares(error)
        if math.isfinite(total):
            return _Mine(_Measure.of(error, total), 0, _ends(candidate), True)
    e, t = base.pair(number)
    c = _double(candidate, CANDIDATE)
    misplaced = int(_misplaced(c, e))
    kept = torch.isfinite(c) & torch.isfinite(e) & torch.isfinite(t)
    c, t = c[kept], t[kept]
    return _Mine(_Measure.of(t - c), misplaced, _Ends.of(c), bool(kept.all()))


def _ends(t: torch.Tensor) -> _Ends:
    """Of finite elements of any dtype."""
    ends = _Ends.of(t[:FEW].double())
    return ends if ends.low < ends.high else _Ends.of(t.double())


def _finite_truth(base: Baseline, number: int) -> torch.Tensor:
    return torch.isfinite(_double(_block(base.truth, number), TRUTH))


def _misplaced(c: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    same = torch.where(torch.isfinite(e), torch.isfinite(c), (torch.isnan(c) & torch.isnan(e)) | (c == e))
    return (~same).sum()


def _screen(
    candidate: torch.Tensor, base: Baseline, numbers: list[int], rtol: float, allowed: float
) -> tuple[int, int | None, bool]:
    """(wrong elements in these blocks, the first of them, whether all of them hold one value)."""
    scale = base.scale

    def look(number: int) -> tuple[int, int | None, _Ends]:
        e, t = base.pair(number)
        c = _double(_block(candidate, number), CANDIDATE)
        bad = ((t - c).abs() > (rtol * (scale + t.abs())).clamp_min(allowed)) & torch.isfinite(e) & torch.isfinite(t)
        count = int(bad.sum())
        if not count:
            return 0, None, _Ends()
        return count, number * CHUNK + int(bad.nonzero()[0]), _Ends.of(c[bad])

    found = [look(number) for number in numbers]
    ends = _Ends.together(part for _, _, part in found)
    return sum(count for count, _, _ in found), next((at for _, at, _ in found if at is not None), None), ends.low == ends.high


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

    def look(number: int) -> tuple[int, int, float, float]:
        e, t = base.pair(number)
        c, size = _double(_block(candidate, number), CANDIDATE), t.abs()
        at = (size > least) & (size < limit)
        size, t = size[at], t[at]
        off, eager_off = (((t - x[at]).abs() / size).nan_to_num(1.0).clamp_max(1.0) for x in (c, e))
        return t.numel(), int(((off > LOST) & (eager_off <= KEPT)).sum()), squares(off), squares(eager_off)

    small, lost, mine, theirs = map(_total, zip(*[look(number) for number in range(base.blocks)], strict=True))
    if small:
        found |= {"small": small, "lost": lost}
        found["small_error"], found["small_error_eager"] = (math.sqrt(x / small) for x in (mine, theirs))
    return found


def differing(a: torch.Tensor, b: torch.Tensor) -> int:
    """How many elements are not the same number; NaN is NaN's."""
    mine, theirs = a.reshape(-1).contiguous(), b.reshape(-1).contiguous()

    def look(number: int) -> int:
        x, y = _block(mine, number), _block(theirs, number)
        return 0 if _same_bytes(x, y) else int(((x != y) & ~((x != x) & (y != y))).sum())

    return sum([look(number) for number in range(-(-mine.numel() // CHUNK))])
