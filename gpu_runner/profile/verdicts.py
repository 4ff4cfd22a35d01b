"""What bounds a program on a GPU, by the GPU's idle time charged to its cause. Pure functions over a summary.

Every class whose rule holds is listed, the largest share of the wall time first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpu_runner.profile.estimates import peak_of
from gpu_runner.profile.judging import fact, verdict

LEAST_NS = 1_000_000
LEAST_ITERATIONS = 3
TRANSFER_PCT = 20.0
UVM_PCT = 10.0
SYNC_PCT = 10.0
LAUNCH_PCT = 15.0
DEPENDENCY_PCT = 15.0
BUSY_PCT = 80.0
SMALL_KERNEL_NS = 10_000
MANY_KERNELS = 20
SMALL_COPY_BYTES = 64 << 10
DOMINANT_PCT = 30.0
ESTIMATED_PCT = 60.0
BEYOND_PCT = 110.0  # of a ceiling: it is none for this


def gpu_verdicts(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The system level of a summary with a `gpu` section. Never empty."""
    gpu, wall = summary["gpu"], summary["window"]["wall_ns"]
    if reason := _insufficient(summary):
        return [
            verdict(
                "system",
                "insufficient",
                f"The profile holds too little to say what bounds the program: {reason}.",
                confidence="low",
                suggestions=("longer",),
            )
        ]
    idle = {cause: 100.0 * ns / wall for cause, ns in gpu["idle_by_cause_ns"].items()}
    sure = _confidence(summary)
    found = [
        *_transfer(summary, idle, wall, sure),
        *_sync(idle, sure),
        *_host(summary, idle, sure),
        *_dependency(idle, sure),
    ]
    found.sort(key=lambda v: -(v["share_pct"] or 0.0))
    busy = 100.0 * gpu["kernel_busy_ns"] / wall
    if busy >= BUSY_PCT or not found:
        found.append(_gpu_bound(summary, busy, sure))
        found += _estimated(summary)
    return found


def _insufficient(summary: Mapping[str, Any]) -> str:
    gpu, wall, count = summary["gpu"], summary["window"]["wall_ns"], summary["target"]["iterations"]
    if summary["source"]["status"] == "unavailable":
        return str(summary["source"]["reason"]) or "the GPU's events are missing"
    if not gpu or not gpu["busy_ns"]:
        return "the range holds no GPU events"
    if summary["source"].get("events_lost"):
        return "the profiler says that it lost events"
    if wall < LEAST_NS:
        return f"the measured range is {wall / 1000:.0f} µs long"
    if count is not None and count < LEAST_ITERATIONS:
        return f"{count} iterations were measured"
    return ""


def _confidence(summary: Mapping[str, Any]) -> str:
    if summary["window"]["basis"] == "first_to_last":
        return "low"
    return "high" if (summary["target"]["iterations"] or 0) >= 10 else "medium"


def _transfer(summary: Mapping[str, Any], idle: Mapping[str, float], wall: int, sure: str) -> list[dict[str, Any]]:
    exposed = 100.0 * summary["gpu"]["copy_exposed_ns"] / wall
    overlap = summary["gpu"].get("uvm_overlap_pct") or 0.0
    if exposed < TRANSFER_PCT and idle["uvm"] < UVM_PCT and overlap < UVM_PCT:
        return []
    copies = [c for c in summary["copies"] if c["kind"] not in ("memset", "D2D", "H2H") and c["time_ns"]]
    evidence = [fact("copy_exposed_pct", exposed, "%", TRANSFER_PCT, "causes:copies")]
    advice = ["keep-on-device"]
    if idle["uvm"] >= UVM_PCT or any(c["kind"].startswith("UVM") for c in copies):
        evidence.append(fact("idle_uvm_pct", idle["uvm"], "%", UVM_PCT, "causes:uvm"))
        advice.append("prefetch-managed")
    if overlap >= UVM_PCT:
        evidence.append(fact("uvm_overlap_pct", overlap, "%", UVM_PCT, "copies"))
    if pageable := sum(c["pageable_count"] for c in copies):
        evidence.append(fact("pageable_copies", pageable, "", 1, "copies"))
        advice.append("pin")
    if any(c["bytes"] is not None and c["count"] >= 10 and c["bytes"] / c["count"] < SMALL_COPY_BYTES for c in copies):
        advice.append("batch-copies")
    share = exposed + idle["uvm"]
    main = copies[0]["kind"] if copies else "copies"
    sentence = f"Transfer-bound: {share:.0f} % of the time the GPU waits for copies, most of them {main}."
    if exposed < TRANSFER_PCT and idle["uvm"] < UVM_PCT:
        sentence = f"Transfer-bound: unified memory moves during {overlap:.0f} % of the largest kernel's time."
    return [verdict("system", "transfer-bound", sentence, share=share, confidence=sure, evidence=evidence, suggestions=advice)]


def _sync(idle: Mapping[str, float], sure: str) -> list[dict[str, Any]]:
    share = idle["sync"]
    if share < SYNC_PCT:
        return []
    sentence = f"Sync-bound: the GPU is idle {share:.0f} % of the time because the host waited for it before going on."
    evidence = [fact("idle_sync_pct", share, "%", SYNC_PCT, "causes:sync")]
    return [
        verdict("system", "sync-bound", sentence, share=share, confidence=sure, evidence=evidence, suggestions=("no-sync",))
    ]


def _host(summary: Mapping[str, Any], idle: Mapping[str, float], sure: str) -> list[dict[str, Any]]:
    share = idle["host"] + idle["launch"]
    if share < LAUNCH_PCT:
        return []
    gpu = summary["gpu"]
    each = gpu["kernel_count"] / max(1, summary["target"]["iterations"] or 1)
    typical = gpu["median_kernel_ns"]
    evidence = [fact("idle_host_pct", share, "%", LAUNCH_PCT, "causes:host")]
    if summary["target"]["iterations"] and typical is not None and typical < SMALL_KERNEL_NS and each >= MANY_KERNELS:
        evidence += [
            fact("median_kernel_ns", typical, "ns", SMALL_KERNEL_NS, "kernels"),
            fact("kernels_per_iteration", each, "", MANY_KERNELS, "timeline"),
        ]
        sentence = (
            f"Launch-bound: {each:.0f} kernels of {typical / 1000:.1f} µs (median) each iteration; the GPU waits {share:.0f} %"
            " of the time for the next launch."
        )
        return [
            verdict(
                "system",
                "launch-bound",
                sentence,
                share=share,
                confidence=sure,
                evidence=evidence,
                suggestions=("fuse", "graph"),
            )
        ]
    sentence = f"Host-bound: the GPU is idle {share:.0f} % of the time while the host prepares the next work."
    return [
        verdict(
            "system",
            "host-bound",
            sentence,
            share=share,
            confidence=sure,
            evidence=evidence,
            suggestions=("preallocate", "graph"),
        )
    ]


def _dependency(idle: Mapping[str, float], sure: str) -> list[dict[str, Any]]:
    share = idle["dependency"]
    if share < DEPENDENCY_PCT:
        return []
    sentence = (
        f"Dependency-bound: {share:.0f} % of the time the next kernel was launched and waited for another stream or event."
    )
    evidence = [fact("idle_dependency_pct", share, "%", DEPENDENCY_PCT, "causes:dependency")]
    return [
        verdict(
            "system", "dependency-bound", sentence, share=share, confidence=sure, evidence=evidence, suggestions=("streams",)
        )
    ]


def _gpu_bound(summary: Mapping[str, Any], busy: float, sure: str) -> dict[str, Any]:
    kernels = summary["kernels"]
    top = kernels[0] if kernels else None
    evidence = [fact("kernel_busy_pct", busy, "%", BUSY_PCT, "causes:kernels")]
    sentence = f"GPU-bound: kernels run {busy:.0f} % of the time"
    if top is not None and top["share_pct"] is not None:
        evidence.append(fact("largest_kernel_pct", top["share_pct"], "%", DOMINANT_PCT, f"kernels:{top['key']}"))
        sentence += f"; {top['short_name']} takes {top['share_pct']:.0f} %"
    return verdict("system", "gpu-bound", sentence + ".", share=busy, saved=0.0, confidence=sure, evidence=evidence,
                   suggestions=("kernel-report",))  # fmt: skip


def _estimated(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Without counters: what the forward must move and compute, over the time of its kernels, against the device's measured
    ceilings; and how many of its launches cannot fill the device. An estimate of the whole, never sure.

    Of the reference, what its operations move one by one is known; of a candidate only the least, so that a small share says
    nothing. Beyond the measured arithmetic are tensor cores at a type whose ceiling is not known: float32 as TF32.
    """
    target, device, gpu = summary["target"], summary["device"], summary["gpu"]
    busy = gpu["kernel_busy_ns"] / max(1, target["iterations"] or 1) / 1e9
    bandwidth, (_, peak) = device["mem_bandwidth_Bps"], peak_of(device, target.get("flop_dtype"))
    if (
        not busy
        or not target["iterations"]
        or device["peaks_from"] != "measured"
        or any(k["counters"] and k["counters"].get("status") != "estimated" for k in summary["kernels"])
    ):
        return []
    moved = max(target.get("bytes") or 0, target.get("moved_bytes") or 0)
    memory = 100.0 * moved / busy / bandwidth if bandwidth else 0.0
    compute = 100.0 * (target.get("flops") or 0) / busy / peak if peak else 0.0
    tensor_cores = compute > BEYOND_PCT
    evidence = [
        fact("memory_sol_pct", memory, "%", ESTIMATED_PCT, "roofline", "estimated"),
        fact("compute_sol_pct", compute, "%", ESTIMATED_PCT, "roofline", "estimated"),
    ]
    share = 100.0 * gpu["kernel_busy_ns"] / summary["window"]["wall_ns"]
    top = memory if tensor_cores else max(memory, compute)
    if top < ESTIMATED_PCT:
        return _far(summary, share, memory, compute, evidence, known=bool(target.get("moved_bytes")) and not tensor_cores)
    klass, what, advice = (
        ("memory-bound", "bandwidth", "fewer-bytes") if top == memory else ("compute-bound", "arithmetic", "algorithm")
    )
    sentence = (
        f"While kernels run, what the forward must do takes {top:.0f} % of the measured {what} (an estimate from its shapes)."
    )
    if top > BEYOND_PCT:
        sentence = (
            f"What the forward must move goes at {top:.0f} % of memory's own rate: it comes from the cache (an estimate)."
        )
    saved = share * max(0.0, 1 - top / 100.0)
    return [
        verdict("system", klass, sentence, share=share, saved=saved, confidence="low", evidence=evidence, suggestions=(advice,))
    ]


def _far(
    summary: Mapping[str, Any], share: float, memory: float, compute: float, evidence: list[dict[str, Any]], known: bool
) -> list[dict[str, Any]]:
    """Latency, where kernels are far from both ceilings: for want of blocks, or for what only counters tell."""
    small = _few_blocks(summary)
    if small >= ESTIMATED_PCT:
        facts = [fact("few_blocks_pct", small, "%", ESTIMATED_PCT, "kernels", "estimated"), *evidence]
        sentence = f"Latency-bound: {small:.0f} % of the kernels' time is in launches with fewer blocks than multiprocessors."
        return [verdict("system", "latency-bound", sentence, share=share, saved=share * small / 100.0, confidence="low",
                        evidence=facts, suggestions=("more-blocks",))]  # fmt: skip
    if not known:
        return []
    sentence = (
        f"Latency-bound: kernels reach {memory:.0f} % of the measured bandwidth and {compute:.0f} % of the measured arithmetic"
        " (an estimate from their shapes)."
    )
    return [verdict("system", "latency-bound", sentence, share=share, saved=0.0, confidence="low", evidence=evidence,
                    suggestions=("loads-in-flight",))]  # fmt: skip


def _few_blocks(summary: Mapping[str, Any]) -> float:
    """Per cent of the kernels' time in launches that leave multiprocessors without a block."""
    count = summary["device"].get("sm_count")
    whole = sum(k["total_ns"] for k in summary["kernels"])
    if not count or not whole:
        return 0.0
    few = sum(k["total_ns"] for k in summary["kernels"] if k.get("grid") and math.prod(k["grid"]) < count)
    return 100.0 * float(few) / float(whole)


def worth_counters(summary: Mapping[str, Any]) -> list[str]:
    """Full names of the kernels that Nsight Compute should look at: those of 30 % or more, or the top three that make 60 %."""
    kernels = [k for k in summary["kernels"] if k["share_pct"] is not None]
    whole = sum(k["total_ns"] for k in kernels)
    shares = [(k["name"], 100.0 * k["total_ns"] / whole) for k in kernels] if whole else []
    large = [name for name, share in shares if share >= DOMINANT_PCT]
    if large:
        return large
    return [name for name, _ in shares[:3]] if sum(share for _, share in shares[:3]) >= 60.0 else []
