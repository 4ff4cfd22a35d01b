"""Runs a profile task: one program, a few forwards under torch.profiler, in its sandbox."""

from __future__ import annotations

from typing import Any, Literal

from gpu_runner.contracts import DeviceInfo, ProfileReport, ProfileTask
from gpu_runner.device import device_info
from gpu_runner.job import Job
from gpu_runner.peers import seed
from gpu_runner.profile.cpu import Work, summarise_host
from gpu_runner.profile.kineto import read_events
from gpu_runner.profile.limits import Limits, Meter, UnreadableProfile
from gpu_runner.profile.reading import finished
from gpu_runner.profile.rows import parse_rows
from gpu_runner.profile.system import summarise_gpu
from gpu_runner.profile.trace import Trace
from gpu_runner.session import NotBuilt, Opening, Session
from gpu_runner.values import ProgramEnded, ProgramRefused, closing

BUDGET_S = 0.4  # of unprofiled forwards
MOST = 20
LEAST = 3
REPORT = Limits(events=20_000, rows=20_000, seconds=10.0)


def repeats(call_ns: int) -> int:
    """How many forwards a profile holds."""
    return max(LEAST, min(MOST, int(BUDGET_S * 1e9 / max(1, call_ns))))


def perform_profile(job: Job, task: ProfileTask, session: Session) -> ProfileReport:
    """Profile the candidate, or the reference where none is given. What a program does wrong is the reason."""
    role: Literal["reference", "candidate"] = "candidate" if task.candidate is not None else "reference"
    opening = Opening(job, task.candidate, task.target) if task.candidate is not None else None
    try:
        reference = session.reference(job, task.source)
        drawn = reference.draw(seed())
        if drawn is None:
            raise ValueError("a plain draw always gives inputs")
        inputs = drawn[0]
        with closing(inputs):
            counts = reference.about("counts", inputs)
            work = Work(flops=_number(counts, "flops"), bytes=_number(counts, "bytes"))
            if opening is None:
                count = repeats(reference.call(inputs).ns)
                answer = reference.about("profile", inputs, iterations=count)
            else:
                with opening.load(reference.facts["init_inputs"], coverage=True) as candidate:
                    with closing(weights := reference.weights()):
                        candidate.load_weights(weights)
                    count = repeats(candidate.call(inputs).ns)
                    answer = candidate.profile(inputs, count)
    except (ProgramRefused, ProgramEnded) as error:
        if error.side == "reference":
            session.forget(job, task.source)
        return ProfileReport(role=role, status="unavailable", reason=error.refusal.sentence)
    except NotBuilt as error:
        return ProfileReport(role=role, status="unavailable", reason=str(error))
    sha = task.candidate.sha256 if task.candidate is not None else task.source.sha256
    summary, coverage = summarise(role, answer, device_info(task.target), sha, work)
    coverage = coverage if role == "candidate" else None
    summary = finished(summary, coverage)
    return ProfileReport(
        role=role,
        status="unavailable" if summary["source"]["status"] == "unavailable" else "measured",
        reason=summary["source"]["reason"],
        summary=summary,
        finding=summary["verdict"]["sentence"],
        coverage=coverage,
    )


def summarise(
    role: str, answer: dict[str, Any], device: DeviceInfo, sha256: str, work: Work
) -> tuple[dict[str, Any], float | None]:
    """(summary without verdicts, coverage) of what a program's process answered. On a GPU coverage is the share of the kernels'
    time in kernels that the candidate's own functions launched, on a CPU that of the forwards inside those functions."""
    summary, coverage = summarise_host(role, answer, parse_rows(answer.get("rows")), device, sha256, work)
    if device.kind != "gpu":
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
    on_gpu["target"] |= {key: summary["target"][key] for key in ("forward_ns", "flops", "bytes")}
    on_gpu["device"] = summary["device"] | {"sm_count": None}
    on_gpu["cpu"] = summary["cpu"]
    on_gpu["figures"]["cpu"] = summary["figures"]["cpu"]
    whole = sum(kernel["total_ns"] for kernel in on_gpu["kernels"])
    own = sum(kernel["total_ns"] for kernel in on_gpu["kernels"] if kernel["origin"] == "own")
    return on_gpu, own / whole if whole else None


def _number(data: object, key: str) -> int:
    value = data.get(key) if isinstance(data, dict) else None
    return value if isinstance(value, int) else 0
