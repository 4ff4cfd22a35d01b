"""What bounds one kernel, by NVIDIA's own speed-of-light rule and the constants of its shipped rules. Pure functions.

At 80 % of a unit's peak a kernel is bound by it; from 60 % on it leans on it when the other is 10 points lower; below 60 % of
both it waits: for blocks, for its launch, for warps, or for what its warps stall on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_runner.profile.advice import BENIGN, STALLS
from gpu_runner.profile.judging import fact, verdict

BOUND_PCT = 80.0
LATENCY_PCT = 60.0
BALANCED_POINTS = 10.0
ROOF_PCT = 95.0
ONE_WAVE = 1.0
SHORT_NS = 10_000
LOW_OCCUPANCY_PCT = 50.0
OCCUPANCY_GAP = 10.0
LOW_THEORETICAL_PCT = 80.0
STALL_SHARE_PCT = 30.0
ISSUE_ACTIVE = 0.8
TENSOR_USED_PCT = 5.0
COALESCED_PCT = 80.0
_PRODUCT = ("gemm", "conv", "matmul", "attention", "fmha", "gemv")
_LIMITER_ADVICE = {
    "registers": "registers", "shared_mem": "shared-memory", "blocks": "block-size", "warps": "block-size",
    "barriers": "block-size",
}  # fmt: skip
_LIMITER_WORDS = {
    "registers": "registers", "shared_mem": "shared memory", "blocks": "blocks per multiprocessor", "warps": "warps",
    "barriers": "barriers",
}  # fmt: skip


def kernel_verdict(kernel: Mapping[str, Any], share_pct: float | None = None) -> dict[str, Any] | None:
    """The verdict over one kernel's counters; None where the two speeds of light are unknown.

    `share_pct`: the kernel's share of the forward, so that the ceiling is one of the forward.
    """
    c = kernel.get("counters") or {}
    compute, memory = c.get("compute_sol_pct"), c.get("memory_sol_pct")
    if compute is None or memory is None:
        return None
    top = max(compute, memory)
    status = "estimated" if c.get("status") == "estimated" else "measured"
    evidence = [
        fact("compute_sol_pct", compute, "%", BOUND_PCT, f"sol:{kernel['key']}", status),
        fact("memory_sol_pct", memory, "%", BOUND_PCT, f"sol:{kernel['key']}", status),
    ]
    klass, words, more, advice = _class(kernel, c, compute, memory)
    if top >= ROOF_PCT:
        words, advice = (
            f"is at the roofline ({top:.0f} % of its {'arithmetic' if compute >= memory else 'memory'} peak)",
            ["at-roofline"],
        )
    sure = "low" if status == "estimated" else "high" if top >= BOUND_PCT or klass.startswith("latency") else "medium"
    saved = share_pct * (1 - top / 100.0) if share_pct is not None else None
    return verdict(
        "kernel", klass, f"{kernel['short_name']} {words}.", share=share_pct, saved=saved, confidence=sure,
        evidence=evidence + more, suggestions=advice, kernel=str(kernel["key"]),
    )  # fmt: skip


def _class(
    kernel: Mapping[str, Any], c: Mapping[str, Any], compute: float, memory: float
) -> tuple[str, str, list[dict[str, Any]], list[str]]:
    """(class, predicate of the sentence, further evidence, advice)."""
    top = max(compute, memory)
    if top >= BOUND_PCT or (top >= LATENCY_PCT and abs(compute - memory) >= BALANCED_POINTS):
        return _compute(kernel, c, compute) if compute >= memory else _memory(c, memory)
    if top >= LATENCY_PCT:
        return "balanced", f"uses arithmetic ({compute:.0f} %) and memory ({memory:.0f} %) evenly", [], ["both-units"]
    return _latency(kernel, c)


def _compute(
    kernel: Mapping[str, Any], c: Mapping[str, Any], compute: float
) -> tuple[str, str, list[dict[str, Any]], list[str]]:
    word = "is bound by" if compute >= BOUND_PCT else "leans on"
    tensor = c.get("tensor_pct")
    product = any(part in str(kernel.get("name", "")).lower() for part in _PRODUCT)
    if tensor is not None and tensor < TENSOR_USED_PCT and product:
        evidence = [fact("tensor_pct", tensor, "%", TENSOR_USED_PCT, f"sol:{kernel['key']}")]
        return (
            "compute-bound",
            f"{word} arithmetic ({compute:.0f} %) without tensor cores",
            evidence,
            ["tensor-cores", "lower-precision"],
        )
    return "compute-bound", f"{word} arithmetic ({compute:.0f} % of its peak)", [], ["lower-precision", "fewer-instructions"]


def _memory(c: Mapping[str, Any], memory: float) -> tuple[str, str, list[dict[str, Any]], list[str]]:
    word = "is bound by" if memory >= BOUND_PCT else "leans on"
    unit = c.get("memory_unit") or "memory"
    advice = {"DRAM": ["fewer-bytes"], "L2": ["tile"], "L1": ["coalesce", "bank-conflicts"]}.get(unit, ["fewer-bytes"])
    evidence = []
    if (share := c.get("coalescing_pct")) is not None and share < COALESCED_PCT:
        evidence.append(fact("coalescing_pct", share, "%", COALESCED_PCT, "kernels"))
        advice = ["coalesce", *(a for a in advice if a != "coalesce")]
    return "memory-bound", f"{word} {unit} ({memory:.0f} % of its peak)", evidence, advice


def _latency(kernel: Mapping[str, Any], c: Mapping[str, Any]) -> tuple[str, str, list[dict[str, Any]], list[str]]:
    key = kernel["key"]
    waves, duration = c.get("waves"), c.get("duration_ns")
    achieved, theoretical = c.get("occupancy_pct"), c.get("occupancy_theoretical_pct")
    if waves is not None and waves < ONE_WAVE:
        evidence = [fact("waves", waves, "", ONE_WAVE, f"occupancy:{key}")]
        return "latency: small grid", f"has too few blocks to fill the GPU ({waves:.2f} waves)", evidence, ["more-blocks"]
    if duration is not None and duration < SHORT_NS:
        evidence = [fact("duration_ns", duration, "ns", SHORT_NS, "kernels")]
        return "latency: launch", f"is as short as a launch ({duration / 1000:.1f} µs)", evidence, ["fuse", "graph"]
    if achieved is not None and theoretical is not None:
        gap = theoretical - achieved
        if achieved < LOW_OCCUPANCY_PCT or gap > OCCUPANCY_GAP:
            limiter = c.get("occupancy_limiter")
            evidence = [
                fact("occupancy_pct", achieved, "%", LOW_OCCUPANCY_PCT, f"occupancy:{key}"),
                fact("occupancy_theoretical_pct", theoretical, "%", LOW_THEORETICAL_PCT, f"occupancy:{key}"),
            ]
            if theoretical < LOW_THEORETICAL_PCT and limiter:
                words = f"keeps {achieved:.0f} % of the warps busy, limited by {_LIMITER_WORDS[limiter]}"
                return "latency: occupancy", words, evidence, [_LIMITER_ADVICE[limiter]]
            words = f"keeps {achieved:.0f} % of the warps busy where {theoretical:.0f} % would fit"
            return "latency: occupancy", words, evidence, ["imbalance"]
    stall = next((s for s in c.get("stalls") or () if s["reason"] not in BENIGN), None)
    issue = c.get("issue_active")
    if stall and (stall["share_pct"] or 0.0) > STALL_SHARE_PCT and (issue is None or issue < ISSUE_ACTIVE):
        waits, advice = STALLS.get(stall["reason"], (stall["reason"].replace("_", " "), ()))
        evidence = [fact("stall_share_pct", stall["share_pct"], "%", STALL_SHARE_PCT, f"stalls:{stall['reason']}")]
        return "latency: stalls", f"waits {stall['share_pct']:.0f} % of a warp's time for {waits}", evidence, list(advice)
    return (
        "latency",
        "uses neither arithmetic nor memory well, and no single stall stands out",
        [],
        ["more-ilp", "loads-in-flight"],
    )
