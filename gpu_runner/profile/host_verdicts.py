"""What bounds a program on a processor: calls, one thread, memory, arithmetic, or none of them. Pure functions over a summary.

The last three by the roofline of each operation: what it must move and compute, over its time, against this machine's measured
ceilings; the roof that more of the forward's time lies under names the class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_runner.profile.cpu import SMALL_OP_NS
from gpu_runner.profile.judging import fact, verdict

SMALL_PCT = 40.0
MANY_OPS = 20
LOW_EFFICIENCY = 0.5  # of the threads,
ONE_CORE = 1.15  # or no more than this many cores
BOUND, LEANS = 0.6, 0.3  # of a ceiling
BUSY_PCT = 20.0  # of the cores' time held by others: from there on rates say nothing about the program,
LOST_PCT = 40.0  # and from here on shares neither
BEYOND = 1.1  # times a ceiling: it is none for this
WASTEFUL = 1.5  # times the least that must move


@dataclass(frozen=True)
class Reached:
    """What takes the time under one roof: `share_pct` of the forward, `rate` (B/s or FLOP/s), `share` of the `ceiling`."""

    share_pct: float = 0.0
    rate: float = 0.0
    ceiling: float = 0.0

    @property
    def share(self) -> float:
        return self.rate / self.ceiling if self.ceiling else 0.0


def host_verdicts(summary: Mapping[str, Any], coverage: float | None = None) -> list[dict[str, Any]]:
    """The verdict over a program on a processor. Without unprofiled forwards only its operations are judged."""
    cpu, target, kernels = summary["cpu"], summary["target"], summary["kernels"]
    each = target.get("forward_ns") or 0
    if not kernels or not summary["window"]["wall_ns"] or (summary["figures"]["cpu"]["status"] == "measured" and not each):
        sentence = "The profile holds too little to say what bounds the program."
        return [verdict("system", "insufficient", sentence, confidence="low", suggestions=("longer",))]
    if (held := cpu.get("held_pct") or 0.0) >= LOST_PCT:
        sentence = f"Others held the cores {held:.0f} % of the time: what bounds the program cannot be told from this profile."
        return [verdict("system", "insufficient", sentence, confidence="low", evidence=[fact("held_pct", held, "%", LOST_PCT)],
                        suggestions=("longer",))]  # fmt: skip
    top = kernels[0]
    largest = f"{top['short_name']} takes {top['share_pct']:.0f} %"
    if coverage is not None:
        largest += f"; {coverage:.0%} is spent in its own kernels"
    return [_calls(cpu, largest) or _serial(cpu, largest) or _roofline(summary, each, largest)]


def _calls(cpu: Mapping[str, Any], largest: str) -> dict[str, Any] | None:
    small, count, median_ns = cpu.get("small_pct"), cpu["op_count"], cpu["median_op_ns"]
    if small is None or small < SMALL_PCT:
        return None
    evidence = [fact("small_pct", small, "%", SMALL_PCT, "flame")]
    if count < MANY_OPS:
        calls = f"the call of {count} operation" if count == 1 else f"the calls of {count} operations"
        sentence = f"Host-bound: {small:.0f} % of the forward is Python and {calls}; {largest}."
        return verdict("system", "host-bound", sentence, share=small, evidence=evidence, suggestions=("preallocate", "host"))
    evidence += [fact("op_count", count, "", MANY_OPS, "flame"), fact("median_op_ns", median_ns, "ns", SMALL_OP_NS, "flame")]
    sentence = (
        f"Dispatch-bound: {count} operations a forward, half of them under {median_ns / 1000:.1f} µs;"
        f" {small:.0f} % of the time goes into calls rather than work."
    )
    return verdict("system", "dispatch-bound", sentence, share=small, evidence=evidence, suggestions=("fuse", "host"))


def _serial(cpu: Mapping[str, Any], largest: str) -> dict[str, Any] | None:
    used, threads = cpu.get("cores_used"), cpu["threads"] or 1
    limit = max(LOW_EFFICIENCY * threads, ONE_CORE)
    if used is None or threads < 2 or used >= limit:
        return None
    efficiency = cpu["parallel_eff_pct"]
    evidence = [fact("parallel_eff_pct", efficiency, "%", 100.0 * limit / threads, "flame")]
    sentence = f"Serial: {used:.1f} of {threads} cores are busy; {largest}."
    return verdict("system", "host-bound", sentence, share=100 - efficiency, evidence=evidence, suggestions=("parallelise",))


def _roofline(summary: Mapping[str, Any], each: int, largest: str) -> dict[str, Any]:
    memory, compute = _reached(summary, each)
    evidence = [
        fact(name, it.rate, unit, BOUND * it.ceiling, "roofline", "estimated")
        for name, unit, it in (("bandwidth", "B/s", memory), ("flop_rate", "FLOP/s", compute))
        if it.rate and it.ceiling
    ]
    main = memory if memory.share_pct >= compute.share_pct else compute
    if main.share < BOUND and (held := summary["cpu"].get("held_pct") or 0.0) >= BUSY_PCT and main.share_pct:
        return _unsure(main, main is memory, held, largest, evidence)
    if main.share < LEANS:
        return _far(memory, compute, main, largest, evidence)
    return _memory(summary, main, largest, evidence) if main is memory else _compute(main, largest, evidence)


def _far(memory: Reached, compute: Reached, main: Reached, largest: str, evidence: list[dict[str, Any]]) -> dict[str, Any]:
    roofs = (("memory", memory), ("arithmetic", compute))
    near = ", ".join(f"{what} ({100 * it.share:.0f} %)" for what, it in roofs if it.rate)
    near = f": {near}" if near else ""
    sentence = f"Latency-bound: what takes the time is far from this machine's ceilings{near}; {largest}."
    return verdict(
        "system", "latency-bound", sentence, share=main.share_pct or None, saved=main.share_pct * (1 - main.share),
        confidence="low", evidence=evidence, suggestions=("vectorise",),
    )  # fmt: skip


def _word(main: Reached) -> tuple[str, str]:
    """(how the sentence goes on after the roof's name, confidence)."""
    return ("-bound", "medium") if main.share >= BOUND else (" leads, not at its limit", "low")


def _memory(summary: Mapping[str, Any], main: Reached, largest: str, evidence: list[dict[str, Any]]) -> dict[str, Any]:
    least, moved = summary["target"].get("bytes") or 0, summary["target"].get("moved_bytes") or 0
    word, sure = _word(main)
    rate = f"{main.rate / 1e9:.1f} of {main.ceiling / 1e9:.1f} GB/s"
    if main.share > BEYOND:
        rate = f"{main.rate / 1e9:.1f} GB/s, beyond memory's {main.ceiling / 1e9:.1f}: they come from a cache"
    share = f"{main.share_pct:.0f} % of the forward moves more than it computes: {(moved or least) / 1e6:.1f} MB"
    waste = moved > WASTEFUL * least > 0
    fused = f" Fused, {least / 1e6:.1f} MB would do." if waste else ""
    return verdict(
        "system", "memory-bound", f"Memory{word}: {share} at {rate}; {largest}.{fused}", share=main.share_pct,
        saved=main.share_pct * ((1 - least / moved) if waste else max(0.0, 1 - main.share)), confidence=sure,
        evidence=evidence, suggestions=("fewer-bytes",),
    )  # fmt: skip


def _compute(main: Reached, largest: str, evidence: list[dict[str, Any]]) -> dict[str, Any]:
    word, sure = _word(main)
    rate = f"{main.rate / 1e9:.0f} of {main.ceiling / 1e9:.0f} GFLOP/s"
    if main.share > BEYOND:
        rate = f"{main.rate / 1e9:.0f} GFLOP/s, beyond the {main.ceiling / 1e9:.0f} of a matrix product here"
    sentence = f"Compute{word}: {main.share_pct:.0f} % of the forward is arithmetic, at {rate}; {largest}."
    return verdict(
        "system", "compute-bound", sentence, share=main.share_pct, saved=main.share_pct * max(0.0, 1 - main.share),
        confidence=sure, evidence=evidence, suggestions=("algorithm",),
    )  # fmt: skip


def _unsure(main: Reached, memory: bool, held: float, largest: str, evidence: list[dict[str, Any]]) -> dict[str, Any]:
    """On a machine that others used: under which roof the time lies, and that the rate is none of the program's."""
    leads = "Memory leads" if memory else "Compute leads"
    what = "moves more than it computes" if memory else "is arithmetic"
    sentence = (
        f"{leads}: {main.share_pct:.0f} % of the forward {what}; {largest}. How near to the limit it is cannot be told: others"
        f" held the cores {held:.0f} % of the time."
    )
    facts = [fact("held_pct", held, "%", BUSY_PCT), *evidence]
    return verdict("system", "memory-bound" if memory else "compute-bound", sentence, share=main.share_pct, saved=0.0,
                   confidence="low", evidence=facts, suggestions=("fewer-bytes" if memory else "algorithm",))  # fmt: skip


def _reached(summary: Mapping[str, Any], each: int) -> tuple[Reached, Reached]:
    """(under memory's roof, under arithmetic's). By operation where their work is known, else by what the whole must do."""
    device, target = summary["device"], summary["target"]
    bandwidth, peak = device["mem_bandwidth_Bps"] or 0.0, device["peak_flops"].get("float32") or 0.0
    if not bandwidth or not peak:
        return Reached(), Reached()
    known = [k["counters"] for k in summary["kernels"] if k["counters"]]
    if known:
        whole = each or summary["window"]["wall_ns"] / max(1, target["iterations"] or 1)
        under: dict[bool, list[Mapping[str, Any]]] = {True: [], False: []}
        for c in known:
            under[(c["memory_sol_pct"] or 0.0) >= (c["compute_sol_pct"] or 0.0)].append(c)

        def rate(group: list[Mapping[str, Any]], what: str) -> tuple[float, float]:
            ns = sum(c["time_ns"] for c in group)
            done = sum((c[what] or 0.0) * c["time_ns"] for c in group)
            return min(100.0, 100.0 * ns / whole), done / ns if ns else 0.0

        return Reached(*rate(under[True], "dram_rate_Bps"), bandwidth), Reached(*rate(under[False], "flop_rate"), peak)
    seconds = each / 1e9
    moved = (target.get("bytes") or 0) / seconds if seconds else 0.0
    rate_of = (target.get("flops") or 0) / seconds if seconds else 0.0
    whole = (100.0, 0.0) if moved / bandwidth >= rate_of / peak else (0.0, 100.0)
    return Reached(whole[0], moved, bandwidth), Reached(whole[1], rate_of, peak)
