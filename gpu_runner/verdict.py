"""The rules over the judge's numbers of one comparison, and over how a program failed. Pure functions: what is made of a whole
check with them is `outcome`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gpu_runner.contracts import HackClass, Label, Protocol, Verdict

LOST_SHARE = 0.5  # of a result: fewer are taken for coarser arithmetic
# What a candidate's process refuses because the candidate is another program than the reference.
_NOT_THE_SAME = ("weights_differ", "inputs_differ", "unsupported_outputs", "wrong_when_timed")


@dataclass
class Trouble:
    """How a program failed in its own process: it refused to go on, the process ended, or what it sent cannot be true.

    `code` is the refusal's, `sentence` says it to people, `log` is what the process printed.
    """

    side: str
    code: str
    sentence: str
    log: str = ""
    how: Literal["refused", "ended", "forged"] = "refused"


def candidate_failure(trouble: Trouble) -> tuple[Verdict, HackClass | None, str]:
    """(verdict, hack, sentence) of a candidate that failed in its own process."""
    if trouble.how == "forged":
        hack = HackClass.TIMER_PATCH if trouble.code == "forged_time" else HackClass.RESULT_FORGING
        return Verdict.HACK, hack, trouble.sentence
    if trouble.how == "ended":
        return (Verdict.TIMED_OUT if trouble.code == "timed_out" else Verdict.CRASHED), None, trouble.sentence
    if trouble.code == "launch_failed":
        return Verdict.INCORRECT, HackClass.SILENT_FAILURE, trouble.sentence
    return (Verdict.INCORRECT if trouble.code in _NOT_THE_SAME else Verdict.CRASHED), None, trouble.sentence


def reference_failure(trouble: Trouble) -> tuple[Verdict, HackClass | None, str]:
    """The same where it was the reference that failed: nothing is said about the candidate."""
    return Verdict.REFUSED, None, f"The reference cannot be used: {trouble.sentence}"


def usual_error(leaf: dict[str, Any]) -> float | None:
    """Eager's RMSE against fp64, at least a quarter of an ULP of the result's RMS, so that an exact eager does not make every
    honest rounding look infinite."""
    return None if leaf.get("rmse_eager") is None else float(max(leaf["rmse_eager"], 0.25 * leaf["epsilon"] * leaf["rms"]))


def leaf_ratio(leaf: dict[str, Any]) -> float | None:
    """RMSE against fp64 in units of eager's own; where much of a result is too small to weigh in that, relative errors too."""
    base = usual_error(leaf)
    if leaf.get("rmse") is None or base is None:
        return None
    if base == 0.0:
        return 1.0 if leaf["rmse"] == 0.0 else None
    small = leaf.get("small_error", 0.0) / max(leaf.get("small_error_eager", 0.0), 0.25 * leaf["epsilon"])
    return float(max(leaf["rmse"] / base, small))


def leaf_signal_error(leaf: dict[str, Any], signal: float | None) -> float | None:
    """The error over what the inputs change; None where the result does not depend on them or is exact."""
    if leaf.get("rmse") is None or not signal:
        return None
    return float(leaf["rmse"] / signal)


def structural(numbers: dict[str, Any]) -> str:
    """How the form of the results differs, as a sentence; empty when it does not."""
    if numbers.get("structure"):
        got, wanted = numbers["structure"]
        return f"it returns {_tree(got)} where the reference returns {_tree(wanted)}"
    for i, leaf in enumerate(numbers["leaves"]):
        where = f"result {i}" if len(numbers["leaves"]) > 1 else "the result"
        if leaf.get("missing"):
            return f"{where} is not a tensor"
        if leaf["kind"] == "literal" and not leaf["equal"]:
            return f"{where} is another plain value"
        if leaf["kind"] == "tensor":
            if leaf["shape"][0] != leaf["shape"][1]:
                return f"{where} has the shape {leaf['shape'][0]} instead of {leaf['shape'][1]}"
            if leaf["dtype"][0] != leaf["dtype"][1]:
                return f"{where} has the dtype {leaf['dtype'][0]} instead of {leaf['dtype'][1]}"
            where_it_lies = leaf.get("device", ["", ""])
            if where_it_lies[0] != where_it_lies[1]:
                return f"{where} lies on {where_it_lies[0]} instead of {where_it_lies[1]}"
    return ""


def _tree(tree: Any) -> str:
    if tree == "*":
        return "one value"
    if isinstance(tree, dict):
        return f"a dict of {', '.join(list(tree)[:6])}"
    return f"a {tree[0]} of {len(tree) - 1}"


def numeric(numbers: dict[str, Any], signals: list[float | None] | None, protocol: Protocol) -> str:
    """What is wrong with the values, as a sentence; empty when they are accepted."""
    for i, leaf in enumerate(numbers["leaves"]):
        if leaf["kind"] == "literal":
            continue
        where = f"result {i}: " if len(numbers["leaves"]) > 1 else ""
        if leaf.get("exact"):
            if count := leaf["mismatches"] - leaf.get("ties", 0):
                return f"{where}{count} of {leaf['numel']} elements differ, the first at {leaf['first']}"
            continue
        if leaf["nonfinite"]:
            return f"{where}{leaf['nonfinite']} elements are NaN or infinite where the reference is not, or the reverse"
        if leaf["failures"]:
            at = f", the first at {leaf['first']}"
            return f"{where}{leaf['failures']} of {leaf['numel']} elements are wrong by up to {leaf['max_error']:.2g}{at}"
        if lost(leaf):
            return f"{where}{leaf['lost']} of {leaf['numel']} elements are off by more than half of what they are"
        signal = signals[i] if signals and i < len(signals) else None
        error, ratio = leaf_signal_error(leaf, signal), leaf_ratio(leaf)
        limit = protocol.signal_error.get(leaf["dtype"][1], 0.05) if protocol.signal_error else math.inf
        if error is not None and error > limit and not (ratio is not None and ratio <= protocol.ratio_reordered):
            return f"{where}the error is {error:.2g} of what the inputs change (limit {limit:g})"
    return ""


def lost(leaf: Mapping[str, Any]) -> bool:
    """Whether most of a result is not there, in elements that no tolerance for the size of the largest ones sees."""
    return bool(leaf.get("lost", 0) > LOST_SHARE * leaf.get("numel", 0))


def accepted(numbers: dict[str, Any], signals: list[float | None] | None, protocol: Protocol) -> bool:
    """Whether these results would pass as the program's."""
    return not structural(numbers) and not numeric(numbers, signals, protocol)


def precision_label(ratio: float | None, protocol: Protocol) -> Label | None:
    """Full, reordered or reduced precision, from the error ratio; None where nothing was measured."""
    if ratio is None:
        return None
    if ratio <= protocol.ratio_full:
        return Label.FULL_PRECISION
    return Label.REORDERED if ratio <= protocol.ratio_reordered else Label.REDUCED_PRECISION
