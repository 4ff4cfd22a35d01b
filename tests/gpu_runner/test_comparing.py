"""What is compared in blocks has the numbers of the same rules written over whole tensors."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

from gpu_runner.child import judge, results, tensors
from gpu_runner.child.results import Baseline, compare_leaf, differing, flattened

RATIO = 10.0
REALS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0)
Numbers = dict[str, Any]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few thousand elements are many blocks."""
    monkeypatch.setattr(results, "_doubles", {})
    monkeypatch.setattr(results, "FEW", 16)
    monkeypatch.setattr(results, "CHUNK", 64)


def plainly(candidate: torch.Tensor, eager: torch.Tensor, truth: torch.Tensor | None, rtol: float) -> Numbers:
    """The numbers by their definitions, each over the whole tensor."""
    c, e = (flattened(x).double() for x in (candidate, eager))
    t = e if truth is None else flattened(truth).double()
    both = e.isfinite() & t.isfinite()
    kept = both & c.isfinite()
    truths, errors, theirs = t[both], (t - c)[kept].abs(), (t - e)[both].abs()
    rms = _rms(truths)
    allowed = RATIO * _most(theirs) if truth is not None else 0.0
    bad = ((t - c).abs() > (rtol * (rms + t.abs())).clamp_min(allowed)) & both
    if _most(errors) <= max(allowed, rtol * rms):
        bad = torch.zeros_like(bad)
    same_place = torch.where(e.isfinite(), c.isfinite(), (c.isnan() & e.isnan()) | (c == e))
    values, wrong = c[kept].unique(), c[bad].unique()
    return {
        "rms": rms,
        "rmse": _rms(errors),
        "rmse_eager": _rms(theirs) if truth is not None and len(theirs) else None,
        "max_error": _most(errors),
        "max_error_eager": _most(theirs) if truth is not None else None,
        "nonfinite": int((~same_place).sum()),
        "finite": bool(e.isfinite().all()),
        "failures": int(bad.sum()),
        "first": int(bad.nonzero()[0]) if bad.any() else None,
        "flat": len(wrong) == 1,
        "constant": len(c[kept]) > 1 and len(values) == 1,
        "zero": len(values) == 1 and float(values[0]) == 0.0,
        "bits_equal": bool((flattened(candidate) == flattened(eager)).all()),
    } | _plainly_small(c, e, t if truth is not None else None, rtol * rms, eager.dtype)


def _plainly_small(c: torch.Tensor, e: torch.Tensor, t: torch.Tensor | None, limit: float, dtype: torch.dtype) -> Numbers:
    none = {"small": 0, "lost": 0, "small_error": 0.0, "small_error_eager": 0.0}
    if t is None or not len(t) or float(((t.abs() > 0) & (t.abs() < limit)).double().mean()) < 0.25:
        return none
    at = (t.abs() > torch.finfo(dtype).tiny) & (t.abs() < limit)
    off, theirs = (((t - x).abs() / t.abs())[at].nan_to_num(1.0).clamp_max(1.0) for x in (c, e))
    if not at.any():
        return none
    lost = int(((off > 0.5) & (theirs <= 0.01)).sum())
    return {"small": int(at.sum()), "lost": lost, "small_error": _rms(off), "small_error_eager": _rms(theirs)}


def _rms(t: torch.Tensor) -> float:
    return math.sqrt(float(t.square().mean())) if len(t) else 0.0


def _most(t: torch.Tensor) -> float:
    return float(t.max()) if len(t) else 0.0


def assert_same(found: Numbers, wanted: Numbers) -> None:
    """Sums may be rounded in another order, all else is equal."""
    for name, value in wanted.items():
        if isinstance(value, float) and name != "max_error":
            assert found[name] == pytest.approx(value, rel=1e-12, nan_ok=True), name
        else:
            assert found[name] == value, name


def made(size: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """(eager's result, the truth) of a program that rounds."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    truth = torch.randn(size, generator=generator, dtype=wide)
    return truth.to(dtype), truth


def programs(eager: torch.Tensor, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """What a candidate may give: right, inexact, wrong in places, trivial, without or with what is not finite."""
    noise = 1 + 1e-3 * torch.randn(eager.shape, generator=generator, dtype=torch.float64)
    places = torch.rand(eager.shape, generator=generator) < 0.01
    found = {
        "equal": eager.clone(),
        "inexact": (eager * noise).to(eager.dtype),
        "scaled": eager * 3,
        "zeros": torch.zeros_like(eager),
        "constant": torch.full_like(eager, 0.5),
    }
    for name, value in zip(("nan", "inf", "-inf", "0", "-0", "nine"), (*SPECIAL, 9.0), strict=True):
        found[name] = torch.where(places, torch.full_like(eager, value), eager)
    return found


@pytest.mark.parametrize("dtype", [*REALS, torch.complex64], ids=str)
def test_blocks_have_the_numbers_of_the_whole(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    seen = set()
    for size, special, own in itertools.product((0, 1, 7, 64, 1003), (False, True), (False, True)):
        eager, truth = made(size, dtype, generator)
        if special and size > 1:
            for tensor, value in itertools.product((eager, truth) if own else (eager,), SPECIAL):
                tensor[int(torch.randint(size, (), generator=generator))] = value
        for name, candidate in programs(eager, generator).items():
            found = compare_leaf(candidate, eager, Baseline(eager, truth if own else None), 1e-4, RATIO)
            wanted = plainly(candidate, eager, truth if own else None, 1e-4)
            assert_same(found, wanted)
            seen |= {(name, key) for key in ("failures", "nonfinite", "flat", "zero", "bits_equal") if wanted[key]}
    assert {("scaled", "failures"), ("nan", "nonfinite")} <= seen
    assert dtype.is_complex or ("nine", "flat") in seen  # of a complex number the imaginary part is another value
    assert {("zeros", "zero"), ("equal", "bits_equal"), ("inf", "nonfinite")} <= seen


def test_steep_results_have_the_same_small_elements() -> None:
    generator = torch.Generator().manual_seed(6)
    truth = torch.exp(6.0 * torch.randn(3000, generator=generator, dtype=torch.float64))
    eager = truth.float()
    for candidate in (eager.clone(), eager * (truth > 1.0), eager * 1.01):
        found = compare_leaf(candidate, eager, Baseline(eager, truth), 1e-2, RATIO)
        assert_same(found, plainly(candidate, eager, truth, 1e-2))
        assert found["small"] > 1000


def test_what_is_known_of_eager_serves_for_every_program() -> None:
    generator = torch.Generator().manual_seed(8)
    eager, truth = made(1003, torch.float32, generator)
    kept = Baseline(eager, truth)
    for candidate in programs(eager, generator).values():
        anew = compare_leaf(candidate, eager, Baseline(eager, truth), 1e-4, RATIO)
        assert repr(compare_leaf(candidate, eager, kept, 1e-4, RATIO)) == repr(anew)


def test_other_strides_are_compared_by_place() -> None:
    eager = torch.randn(40, 30, generator=torch.Generator().manual_seed(9))
    for candidate in (eager.T.contiguous().T, eager.clone()[:, ::1], eager[:1].expand(40, 30)):
        wanted = plainly(candidate.contiguous(), eager, None, 1e-4)
        assert_same(compare_leaf(candidate, eager, Baseline(eager, None), 1e-4, RATIO), wanted)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool], ids=str)
def test_whole_numbers_are_counted_as_over_the_whole(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(10)
    for size in (0, 1, 64, 1003):
        eager = torch.randint(0, 100, (size,), generator=generator).to(dtype)
        other = torch.where(torch.rand(size, generator=generator) < 0.01, 1 - eager.to(torch.int16), eager).to(dtype)
        for candidate in (eager.clone(), other, torch.ones_like(eager)):
            different = (candidate != eager).nonzero()
            found = compare_leaf(candidate, eager, None, 0.0, RATIO)
            assert (found["mismatches"], found["bits_equal"]) == (len(different), len(different) == 0)
            assert found["first"] == (int(different[0]) if len(different) else None)
            assert found["constant"] == (size > 0 and len(candidate.unique()) == 1)


def test_elements_that_differ_are_counted_as_over_the_whole() -> None:
    generator = torch.Generator().manual_seed(11)
    for dtype in (*REALS, torch.complex64, torch.int32):
        a = torch.randint(0, 9, (1003,), generator=generator).to(dtype)
        b = torch.where(torch.rand(1003, generator=generator) < 0.1, a + 1, a)
        if dtype != torch.int32:
            a[:100:3], b[:100:2] = math.nan, math.nan
        assert differing(a, b) == int(((a != b) & ~((a != a) & (b != b))).sum()) > 0


def test_every_dtype_that_crosses_can_be_compared_and_sampled() -> None:
    for dtype in tensors.DTYPES.values():
        t = torch.arange(200).remainder(2).to(dtype)
        numbers = compare_leaf(t, t.clone(), Baseline(t, None) if judge._floating(t) else None, 1e-4, RATIO)
        assert (numbers["bits_equal"], numbers.get("failures", 0), numbers.get("mismatches", 0)) == (True, 0, 0)
        flipped, base = torch.arange(1, 201).remainder(2).to(dtype), Baseline(t, None) if judge._floating(t) else None
        other = compare_leaf(flipped, t, base, 1e-4, RATIO)
        assert (other["bits_equal"], other.get("failures", 0) + other.get("mismatches", 0)) == (False, 200)
        assert len(judge._thinned(t)) == 200


def test_trivial_programs_are_sampled_as_if_they_had_been_made_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "NULL_SAMPLE", 10)
    generator = torch.Generator().manual_seed(12)
    eager = [
        torch.randn(8, 13, generator=generator),
        torch.randint(0, 9, (4, 6), generator=generator),
        torch.randn(6, 1).cfloat(),
    ]
    inputs = [torch.randn(13, 8, generator=generator), torch.randn(24, generator=generator), torch.randn(6)]
    for program in judge._trivial(eager, inputs).values():
        for whole, thin in zip(program(judge._whole), program(judge._thinned), strict=True):
            step = max(1, whole.numel() // 10)
            assert torch.equal(whole.reshape(-1)[::step], thin)
    made_whole = {name: program(judge._whole) for name, program in judge._trivial(eager, inputs).items()}
    assert torch.equal(made_whole["half-batch"][0], torch.cat([eager[0][:4], eager[0][:4]]))
    assert torch.equal(made_whole["first-input"][0], inputs[0].reshape(8, 13))
    assert made_whole["constant"][0].unique().item() == pytest.approx(float(eager[0].double().mean()))


def test_a_mean_leaves_out_what_is_not_finite() -> None:
    t = torch.tensor([1.0, math.nan, math.inf, 3.0] * 100)
    assert results.mean(t) == 1.0
