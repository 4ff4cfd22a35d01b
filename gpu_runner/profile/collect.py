"""Runs a profile task: one program under each profiler that this machine has, each in its sandbox."""

from __future__ import annotations

from typing import Any, Literal

from gpu_runner import turns
from gpu_runner.contracts import DeviceInfo, ProfileReport, ProfileTask
from gpu_runner.device import device_info, llc_bytes
from gpu_runner.job import Job
from gpu_runner.peers import seed
from gpu_runner.profile import estimates, kept
from gpu_runner.profile.collectors import Collectors
from gpu_runner.profile.cpu import summarise_host
from gpu_runner.profile.estimates import Work, work_of
from gpu_runner.profile.host_verdicts import BUSY_PCT
from gpu_runner.profile.kineto import read_events
from gpu_runner.profile.limits import Limits, Meter, UnreadableProfile
from gpu_runner.profile.reading import attach, finished, signature
from gpu_runner.profile.rows import parse_rows
from gpu_runner.profile.subject import subject
from gpu_runner.profile.system import summarise_gpu
from gpu_runner.profile.trace import Trace
from gpu_runner.profile.verdicts import worth_counters
from gpu_runner.session import NotBuilt, Session
from gpu_runner.values import ProgramEnded, ProgramRefused, closing

LEAST = 3  # forwards that tell something
MOST_COUNTED = 3  # kernels whose counters are read
CALLS, SAME = 4, 1.5  # calls that tell whether a kept profile still holds, and how far their time may have moved
Role = Literal["reference", "candidate"]
_WORK = ("forward_ns", "flops", "flop_dtype", "bytes", "moved_bytes")  # of the target, which torch.profiler's process tells
REPORT = Limits(events=40_000, rows=40_000, seconds=10.0)


def perform_profile(job: Job, task: ProfileTask, session: Session) -> ProfileReport:
    """Profile the candidate, or the reference where none is given. What a program does wrong is the reason.

    A reference's profile is kept: the same program on the same device under the same versions, which takes as long as then, is
    not measured twice.
    """
    role: Role = "reference" if task.candidate is None else "candidate"
    try:
        if task.candidate is not None:
            return _measured(job, task, session, role)
        name = kept.key(session.key(job, task.source), device_info(task.target))
        call_ns = _call_ns(job, task, session)
        known = None if task.fresh else kept.load(name)
        if known is not None and 1 / SAME <= call_ns / max(1, known["target"]["call_ns"]) <= SAME:
            job.stage("taking the profile that was measured before")
            return _report(role, _on(known, device_info(task.target)), None, cached=True)
        report = _measured(job, task, session, role)
        brief = task.brief and device_info(task.target).kind == "gpu"
        if not brief and report.status == "measured" and report.summary is not None and not _disturbed(report.summary):
            report.summary["target"]["call_ns"] = call_ns
            kept.save(name, report.summary)
        return report
    except (ProgramRefused, ProgramEnded) as error:
        if error.side == "reference":
            session.forget(job, task.source)
        return ProfileReport(role=role, status="unavailable", reason=error.refusal.sentence)
    except NotBuilt as error:
        return ProfileReport(role=role, status="unavailable", reason=str(error))


def _disturbed(summary: dict[str, Any]) -> bool:
    """Whether others held the cores for so long that the profile is none to keep."""
    return ((summary["cpu"] or {}).get("held_pct") or 0.0) >= BUSY_PCT


def _call_ns(job: Job, task: ProfileTask, session: Session) -> int:
    """The quickest of a few calls of the reference: whether the machine still is what it was."""
    reference = session.reference(job, task.source)
    drawn = reference.draw(seed())
    if drawn is None:
        raise ValueError("a plain draw always gives inputs")
    with closing(drawn[0]), turns.alone(job):
        return min(reference.call(drawn[0]).ns for _ in range(CALLS))


def _measured(job: Job, task: ProfileTask, session: Session, role: Role) -> ProfileReport:
    with turns.alone(job):
        session.learn_ceilings(job, task.target)
    with turns.beside(job):
        counts = session.counts(job, task.source)
    work = work_of(counts, by_op=role == "reference")
    with subject(job, task, session) as program:
        summary, coverage = _collected(Collectors(program), role, device_info(task.target), task, work)
    coverage = coverage if role == "candidate" else None
    return _report(role, finished(summary, coverage), coverage)


def _report(role: Role, summary: dict[str, Any], coverage: float | None, cached: bool = False) -> ProfileReport:
    source = summary["source"]
    return ProfileReport(
        role=role,
        status="unavailable" if source["status"] == "unavailable" else "measured",
        reason=source["reason"],
        summary=summary,
        finding=summary["verdict"]["sentence"],
        coverage=coverage,
        cached=cached,
    )


def _on(summary: dict[str, Any], device: DeviceInfo) -> dict[str, Any]:
    """A kept summary, judged by the device's ceilings as they are known today: the largest figures seen."""
    rates = {"mem_bandwidth_Bps": device.bandwidth_bps, "peak_flops": estimates.peaks_of(device)}
    if device.bandwidth_bps and device.peak_flops:
        summary["device"] |= rates
        estimates.again(summary)
        cached = summary["roof"]["cached"] if summary["roof"] else None
        if cached is not None:
            summary["roof"] = (estimates.roof(summary, None) or {}) | {"cached": cached}
    return finished(summary)


def _collected(
    collectors: Collectors, role: str, device: DeviceInfo, task: ProfileTask, work: Work
) -> tuple[dict[str, Any], float | None]:
    """(summary without verdicts, coverage): torch.profiler's, and on a GPU the profilers around it as far as they come."""
    answer = collectors.torch()
    sha = task.candidate.sha256 if task.candidate is not None else task.source.sha256
    summary, coverage = summarise(role, answer, device, sha, work)
    if device.kind == "gpu":
        if not task.brief:
            iterations = answer.get("iterations")
            trace = collectors.nsys(iterations if isinstance(iterations, int) and 0 < iterations <= 1000 else LEAST)
            if trace is not None and trace.gpu:
                summary = around(summary, summarise_gpu(trace, role=role, sha256=sha))
            _count(summary, collectors)
        estimates.attach_to_kernels(summary, work)
    cache = answer.get("cache_bytes") if device.kind == "gpu" else llc_bytes()
    summary["roof"] = estimates.roof(summary, cache if isinstance(cache, int) else None)
    summary["collectors"] = [step.said() for step in collectors.done]
    return summary, coverage


def _count(summary: dict[str, Any], collectors: Collectors) -> None:
    """Read the counters of the kernels where they tell most, or say in the summary why there are none."""
    worth = worth_counters(summary)[:MOST_COUNTED] if summary["source"]["status"] != "unavailable" else []
    if counted := collectors.ncu(worth):
        attach(summary, counted)
    missing = next((c.outcome for c in collectors.done if c.tool == "ncu" and c.outcome.status != "measured"), None)
    if missing is not None and summary["figures"]["counters"]["status"] != "measured":
        summary["figures"]["counters"] = {"status": "unavailable", "reason": missing.sentence}


def summarise(
    role: str, answer: dict[str, Any], device: DeviceInfo, sha256: str, work: Work
) -> tuple[dict[str, Any], float | None]:
    """(summary without verdicts, coverage) of what a program's process answered. On a GPU coverage is the share of the kernels'
    time in kernels that the candidate's own functions launched, on a CPU that of the forwards inside those functions."""
    rows = parse_rows(answer.get("rows"))
    work = work.done_by(rows)
    summary, coverage = summarise_host(role, answer, rows, device, sha256, work)
    if device.kind != "gpu":
        estimates.attach_to_operations(summary, work.done)
        return summary, coverage
    try:
        trace = read_events(answer.get("events"), {}, Meter(REPORT))
    except UnreadableProfile:
        trace = Trace("torch_profiler")
    if not trace.gpu:
        trace.missing = trace.missing or "the profiler gave no events of the GPU"
    on_gpu = summarise_gpu(trace, role=role, sha256=sha256)
    on_gpu["source"]["tool_version"] = summary["source"]["tool_version"]
    on_gpu["source"]["warnings"] += summary["source"]["warnings"]
    on_gpu["target"] |= {key: summary["target"][key] for key in _WORK}
    count = answer.get("sm_count")
    on_gpu["device"] = summary["device"] | {"sm_count": count if isinstance(count, int) and 0 < count < 10_000 else None}
    on_gpu["cpu"] = summary["cpu"]
    on_gpu["figures"]["cpu"] = summary["figures"]["cpu"]
    whole = sum(kernel["total_ns"] for kernel in on_gpu["kernels"])
    own = sum(kernel["total_ns"] for kernel in on_gpu["kernels"] if kernel["origin"] == "own")
    return on_gpu, own / whole if whole else None


def around(inside: dict[str, Any], outside: dict[str, Any]) -> dict[str, Any]:
    """One summary of a program's two reports: times, gaps and copies by the tool around it, which slows the host less; what
    launched the kernels by torch.profiler, which alone sees the operations."""
    known = {signature(kernel["name"]): kernel for kernel in inside["kernels"]}
    for kernel in outside["kernels"]:
        if (same := known.get(signature(kernel["name"]))) is not None:
            kernel |= {key: same[key] for key in ("op_path", "origin")}
    device = {key: value for key, value in inside["device"].items() if value not in (None, "", {})}
    outside["target"] |= {key: inside["target"][key] for key in _WORK}
    outside["device"] |= device
    if inside["source"]["status"] != "unavailable":
        outside |= {key: inside[key] for key in ("ops", "tree")}
        outside["figures"]["ops"] = inside["figures"]["ops"]
    outside["cpu"] = inside["cpu"]
    outside["figures"]["cpu"] = inside["figures"]["cpu"]
    return outside
