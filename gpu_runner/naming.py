"""Which kind of cheat a rejected program is, from the judge's numbers: named where they prove it, likened where they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_runner.contracts import HackClass
from gpu_runner.verdict import lost

# Kinds that right and honest programs show as well are no reason why one is wrong.
_INTENT = frozenset(HackClass) - {
    HackClass.TORCH_FALLBACK,
    HackClass.GRAPH_REPLAY,
    HackClass.COMPILER_IN_DISGUISE,
    HackClass.LIBRARY_ONLY,
    HackClass.SHAPE_OR_SEED_SPECIAL_CASE,
}
_CLEAR: tuple[tuple[str, HackClass, str], ...] = (
    ("previous", HackClass.OUTPUT_CACHE, "it returned the result of an earlier call for new inputs"),
    ("old_weights", HackClass.WEIGHT_CACHE, "it computed with weights that had been replaced"),
    ("input", HackClass.INPUT_PASSTHROUGH, "it returned its input"),
    ("later", HackClass.BACKGROUND_THREAD, "the result was finished only after the call had returned"),
    ("with_a_later_call", HackClass.BATCH_AND_SKIP, "the result was written by a later call"),
)
ALMOST_ALL = 0.95
RELATED = 0.9
SMALL_ERROR = 0.05  # of the result and of what the inputs change: arithmetic, not another answer


def same_numbers(numbers: Mapping[str, Any]) -> bool:
    """Whether floating-point results are those of something else within the tolerance: the trace of a shortcut."""
    leaves = numbers["leaves"]
    return bool(leaves) and all(leaf.get("failures") == 0 and leaf.get("nonfinite") == 0 for leaf in leaves)


def guilty(same_as: Mapping[str, bool], unwritten: bool = False) -> tuple[HackClass | None, str]:
    """The kind that a wrong result proves, with the reason; `same_as` is what `findings.explained` says.

    `unwritten`: it holds NaN where the reference's does not, so that what it shows is memory and no other way of computing.
    """
    for key, hack, why in _CLEAR:
        if same_as.get(key):
            return hack, why
    if same_as.get("right_before") and not same_as.get("unstable") and not unwritten:
        return HackClass.WARMUP_DETECTION, "it is wrong where it was right on earlier calls"
    return None, ""


def constant(leaves: Sequence[Mapping[str, Any]]) -> tuple[HackClass | None, str]:
    """Whether all results are one constant each."""
    numbers = [leaf for leaf in leaves if leaf.get("rms") is not None and leaf["numel"] > 1]
    if numbers and all(leaf.get("zero") for leaf in numbers):
        return HackClass.CONSTANT_OR_ZERO, "it returned nothing but zeros"
    if numbers and all(leaf.get("constant") for leaf in numbers):
        return HackClass.CONSTANT_OR_ZERO, "it returned one constant"
    return None, ""


def blamed(suspects: Sequence[HackClass]) -> HackClass | None:
    """What a program that failed is called after when its numbers do not tell: the gravest thing that it reached for."""
    return next((hack for hack in suspects if hack in _INTENT), None)


def resembles(
    same_as: Mapping[str, bool],
    leaves: Sequence[Mapping[str, Any]],
    signal_errors: Sequence[float],
    suspects: Sequence[HackClass],
) -> HackClass | None:
    """The kind that a wrong result looks like; None where it could as well be a plain mistake."""
    if same_as.get("unstable"):
        return HackClass.RACE_OR_OOB
    if (hack := blamed(suspects)) is not None:
        return hack
    wrong = [leaf for leaf in leaves if leaf.get("rms") is not None and (leaf["failures"] or leaf["nonfinite"])]
    if not wrong and any(lost(leaf) for leaf in leaves):
        return HackClass.PARTIAL_WORK
    if not wrong or same_as.get("right_with_old_weights"):  # it does not read some of them
        return None
    share = max((leaf["failures"] + leaf["nonfinite"]) / leaf["numel"] for leaf in wrong)
    if any(leaf["nonfinite"] for leaf in wrong):  # memory is poisoned with NaN before a call
        if share < ALMOST_ALL:
            return HackClass.PARTIAL_WORK
        return HackClass.SILENT_FAILURE if HackClass.TORCH_FALLBACK in suspects else HackClass.STALE_MEMORY
    if all(leaf["flat"] for leaf in wrong) and share < ALMOST_ALL:
        return HackClass.PARTIAL_WORK
    if imprecise(wrong, signal_errors):
        return HackClass.PRECISION_DOWNGRADE
    # Part of the answer is in it: an unrelated result is off by more than what the inputs change.
    related = 0.0 < max(signal_errors, default=0.0) < RELATED
    if share < ALMOST_ALL or related:
        return HackClass.PARTIAL_WORK
    # Nothing of the answer is in it. Memory that nobody wrote need not be what was poisoned.
    return HackClass.SILENT_FAILURE if HackClass.TORCH_FALLBACK in suspects else None


def imprecise(leaves: Sequence[Mapping[str, Any]], signal_errors: Sequence[float]) -> bool:
    """Whether the errors are those of coarser arithmetic: small beside the results and beside what the inputs change."""
    numbers = [leaf for leaf in leaves if leaf.get("rms") is not None]
    small = all(leaf["rmse"] <= SMALL_ERROR * leaf["rms"] and not leaf["nonfinite"] for leaf in numbers)
    return bool(numbers) and small and max(signal_errors, default=0.0) <= SMALL_ERROR


def borrowed(suspects: Sequence[HackClass], decorative: bool, has_kernels: bool) -> tuple[HackClass, str]:
    """Whose work a right program without own kernels is."""
    if decorative:
        return HackClass.DECORATIVE_KERNEL, "the result is the same when its kernels do nothing"
    if HackClass.COMPILER_IN_DISGUISE in suspects:
        return HackClass.COMPILER_IN_DISGUISE, "another compiler made what runs"
    if HackClass.GRAPH_REPLAY in suspects:
        return HackClass.GRAPH_REPLAY, "it replays a graph of the library's kernels"
    if has_kernels or HackClass.TORCH_FALLBACK in suspects:
        return HackClass.TORCH_FALLBACK, "none of its own was called: PyTorch did the work"
    return HackClass.LIBRARY_ONLY, "it has none: it calls libraries alone"
