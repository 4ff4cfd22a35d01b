"""Replays as a run's events: somebody asked for one draw of a check again, what became of it, and what it showed.

A replay is a job beside the run: it spends none of its budget, waits for none of its steps, and changes no verdict.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agents.events import Event, ReplayView, replay_key
from gpu_runner.contracts import CheckReport, CheckRow, Progress, Replay
from stitchweb.runs import events
from stitchweb.runs.models import Event as EventRow
from stitchweb.runs.models import Job, JobState, Run

MOST_TEXT = 600


def begun(job: Job, by: str, waiting: str = "") -> ReplayView:
    """A replay as it is asked for."""
    replay = Replay.model_validate(job.task["replay"])
    return ReplayView(
        id=str(job.pk), candidate=job.candidate, row=replay_key(replay), name=replay.name, state="asked", by=by, waiting=waiting
    )


def tell(run: Run, view: ReplayView, who: str = "system") -> None:
    """Append it to the run's events. The run is locked by the caller."""
    payload = view.model_dump(mode="json")
    events.append(run, [Event(seq=1, kind="replay.changed", at=time.time(), who=who, payload=payload)])


def change(run: Run, job: Job, who: str = "runner", **update: Any) -> None:
    """Tell what has changed about a job's replay. The run is locked by the caller."""
    told = EventRow.objects.filter(run=run, kind="replay.changed", payload__id=str(job.pk)).order_by("-seq").first()
    if told is not None:
        before = ReplayView.model_validate(told.payload)
        after = before.model_copy(update={"doing": "", "waiting": ""} | update)
        if after != before:
            tell(run, after, who)


def progress(run: Run, job: Job, said: Iterable[Progress]) -> None:
    """The newest word of what is being done."""
    stages = [str(message.payload.get("text", "")) for message in said if message.kind == "stage"]
    if stages:
        change(run, job, state="working", doing=stages[-1][:200])


def ended(run: Run, job: Job) -> None:
    """What the job came to: the row as it was seen now, or why there is none."""
    if job.state != JobState.DONE:
        change(run, job, state="failed", sentence=(job.error or "The runner could not do it.")[:MOST_TEXT])
        return
    report = CheckReport.model_validate(job.report)
    seen = next((row for row in report.rows if row.replay is not None), None)
    device = ", ".join(filter(None, (report.device.name, f"torch {report.device.torch}"))) if report.device else ""
    change(run, job, state="done", seen=seen, sentence=report.sentence[:MOST_TEXT], device=device)


@dataclass(frozen=True)
class Comparison:
    """A replay beside the recorded row. `same`: "bits", "reading" or ""; `differs`: (what, recorded, now)."""

    same: str
    differs: tuple[tuple[str, str, str], ...] = ()


def compare(recorded: CheckRow, seen: CheckRow) -> Comparison:
    """How the replay differs from what is recorded."""
    states = {True: "pass", False: "fail", None: "for information"}
    pairs = (
        ("state", states[recorded.passed], states[seen.passed]),
        ("value", recorded.value, seen.value),
        ("limit", recorded.limit, seen.limit),
        ("because", recorded.note, seen.note),
    )
    differs = tuple(pair for pair in pairs if pair[1] != pair[2])
    if differs:
        return Comparison("", differs)
    return Comparison("bits" if recorded.numbers and recorded.numbers == seen.numbers else "reading")
