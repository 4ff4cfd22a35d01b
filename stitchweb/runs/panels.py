"""What each panel of a run page shows, as plain data out of the View.

Each function picks from the View exactly what its template needs. That makes the answer a panel's identity: a panel is sent
to watching browsers when, and only when, its answer changed. Nothing here reads a blob or asks a clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agents.events import CandidateView, ControlView, ReplayView, View, replay_key
from agents.state import Status
from gpu_runner.contracts import CheckRow, Interval, Label, Speed, TimingReport
from stitchweb.runs import rail
from stitchweb.runs.lines import request_words
from stitchweb.runs.replays import Comparison, compare

REFERENCE = "reference"
GROUPS = {
    "declared": "Declared inputs",
    "structured": "Structured inputs",
    "numerics": "Numerics",
    "state": "State and memory",
    "honesty": "Honesty",
    "reach": "Reach",
}


def focus_of(view: View) -> str:
    """Whose panels a page shows that follows the run: the candidate under work, at the end the best or else the last one."""
    if not view.status.status.ended and view.status.candidate in view.candidates:
        return str(view.status.candidate)
    if view.status.status.ended and view.best in view.candidates:
        return str(view.best)
    return next(reversed(view.candidates), REFERENCE)


def report_of(candidate: CandidateView) -> TimingReport | None:
    """The weightier of a candidate's timings: the confirmed one where there is one."""
    return candidate.confirmed or candidate.timing


@dataclass(frozen=True)
class Reading:
    """A speedup that may be shown: never without its interval, its baseline and its protocol."""

    interval: Interval
    baseline: str
    speed: str
    protocol: str
    confirmed: bool

    @property
    def significant(self) -> bool:
        return self.speed == Speed.FASTER


def reading(candidate: CandidateView | None) -> Reading | None:
    """The headline of a candidate: over its fastest correct baseline. None when there is nothing to claim."""
    if candidate is None or candidate.verdict != "verified":
        return None
    report = report_of(candidate)
    if report is None or report.speed is Speed.NOT_CLAIMED:
        return None
    interval = report.over_baseline or report.over_eager
    if interval is None:
        return None
    baseline = report.baseline if report.over_baseline else "eager"
    return Reading(interval, baseline, report.speed, report.protocol, candidate.confirmed is not None)


def _asked(view: View, *kinds: str) -> ControlView | None:
    """The request of one of these kinds that was made and not yet applied."""
    return next((c for c in reversed(view.controls.values()) if c.kind in kinds and c.state == "requested"), None)


def _share(spent: float, budget: dict[str, Any], key: str) -> dict[str, Any]:
    bound = budget.get(key)
    return {"spent": spent, "bound": bound, "share": min(spent / bound, 1.0) if bound else None}


def unpriced(view: View) -> bool:
    """Whether a question was asked whose price is not known, so that no bound on money can be held."""
    return any(not asked.price_known for asked in view.asked.values())


def budget(view: View) -> dict[str, dict[str, Any]]:
    """What was spent of what: {spent, bound or None, share 0..1 or None} per resource."""
    if view.usage is None:
        return {}
    usage, bounds = view.usage.usage, view.usage.budget
    # Questions to models are told as they are answered, what a step spent when it ends.
    tokens = max(usage.tokens_in + usage.tokens_out, sum(a.tokens_in + a.tokens_out for a in view.asked.values()))
    money = max(usage.money, sum(a.money for a in view.asked.values()))
    return {
        "attempts": _share(usage.attempts, bounds, "attempts"),
        "wall": _share(usage.wall_s, bounds, "wall_s"),
        "device": _share(usage.device_s, bounds, "device_s"),
        "tokens": _share(tokens, bounds, "tokens"),
        "money": _share(money, bounds, "money") | {"unpriced": unpriced(view)},
    }


def _word(view: View, candidate: CandidateView) -> str:
    """Its verdict; without one what happens to it now, which is nothing once the run has ended."""
    return candidate.verdict or ("unfinished" if view.status.status.ended else candidate.status)


def _on_rail(view: View) -> CandidateView | None:
    """The candidate under work, and none between two; at the end the one in focus."""
    return view.candidates.get(focus_of(view) if view.status.status.ended else view.status.candidate or "")


def _under_way(view: View, candidate: CandidateView | None, status: str) -> bool:
    return candidate is not None and candidate.status == status and not view.status.status.ended


def _waits(view: View) -> bool:
    """Whether a step is due that no runner has taken."""
    resting = view.status.status.ended or view.status.status in (Status.QUEUED, Status.PAUSED, Status.AWAITING_APPROVAL)
    return bool(view.status.waiting) and not resting


def head(view: View) -> dict[str, Any]:
    status = "waiting" if _waits(view) else view.status.status.value
    return {"status": status, "header": view.header, "result": view.result and view.result.verdict}


def controls(view: View) -> dict[str, Any]:
    status = view.status.status
    return {
        "status": status.value,
        "ended": status.ended,
        "paused": status is Status.PAUSED,
        "awaiting": status is Status.AWAITING_APPROVAL,
        "plan_version": view.plan.version if view.plan else None,
        "pause": _asked(view, "pause"),
        "resume": _asked(view, "resume"),
        "cancel": _asked(view, "cancel"),
        "approve": _asked(view, "approve_plan"),
        "best": view.best,
    }


def state(view: View) -> dict[str, Any]:
    best = view.candidates.get(view.best or "")
    report = report_of(best) if best else None
    median = next((a.median_ms for a in report.arms if a.arm == "candidate"), None) if report else None
    floor = report.floor_ms if report else None
    return {
        "line": view.status,
        "status": view.status.status.value,
        "live": not view.status.status.ended,
        "waits": _waits(view),
        "since": view.status_since,
        "started_at": view.started_at,
        "stages": rail.stages(view, _on_rail(view)),
        "lanes": [] if _waits(view) else list(view.status.lanes),
        "best": view.best,
        "reading": reading(best),
        "borrowed": Label.NO_OWN_KERNELS in best.labels if best else False,
        "over_eager": report.over_eager if report and reading(best) else None,
        "over_compile": report.over_compile if report and reading(best) else None,
        "compile_reason": next(iter(report.errors.values()), "") if report else "",
        "floor_ms": floor,
        "median_ms": median,
        "of_floor": floor / median if floor and median else None,
        "budget": budget(view),
        "working_since": view.working_since,
        "result": view.result,
        "refusal": view.analysis.refusal if view.analysis else None,
        "nulls": view.analysis.nulls if view.analysis else (),
        "plan_version": view.plan.version if view.plan else None,
        "asked": [c for c in view.controls.values() if c.state == "requested"],
        "candidates": len(view.candidates),
    }


def plan(view: View) -> dict[str, Any]:
    return {
        "plan": view.plan,
        "doing": view.status.status.value,
        "awaiting": view.status.status is Status.AWAITING_APPROVAL,
        "ended": view.status.status.ended,
        "note": view.plan.note if view.plan else "",
        "edit": _asked(view, "edit_plan"),
    }


def hints(view: View) -> dict[str, Any]:
    kinds = ("hint", "candidate", "branch", "profile")
    return {"requests": [(request_words(c.kind), c) for c in view.controls.values() if c.kind in kinds]}


def usage(view: View) -> dict[str, Any]:
    return {
        "usage": view.usage.usage if view.usage else None,
        "budget": budget(view),
        "header": view.header,
        "asked": view.asked,
        "unpriced": unpriced(view),
    }


def device(view: View) -> dict[str, Any]:
    """Where the numbers were measured: the newest report that says it, else the analysis."""
    reports = [r for c in reversed(view.candidates.values()) for r in (c.confirmed, c.timing) if r and r.device]
    if view.reference_timing and view.reference_timing.device:
        reports.append(view.reference_timing)
    known = (
        reports[0].device.model_dump() if reports and reports[0].device else dict(view.analysis.device if view.analysis else {})
    )
    return {"device": known, "header": view.header, "facts": dict(reports[0].facts) if reports else {}}


def analysis(view: View) -> dict[str, Any]:
    return {"analysis": view.analysis, "status": view.status.status.value}


@dataclass(frozen=True)
class CandidateRow:
    """A row of the tree. `shown` is its loop timing: rows of one table share one protocol."""

    view: CandidateView
    timing: TimingReport | None
    live: bool
    best: bool
    word: str
    note: str

    @property
    def interval(self) -> Interval | None:
        return self.timing.over_eager if self.timing else None

    @property
    def faster(self) -> bool:
        return bool(self.timing) and self.timing.speed is Speed.FASTER


def _row_note(view: View, c: CandidateView) -> str:
    """What stands in the speed column of a candidate without a speedup."""
    live = view.live_timing.get(c.id)
    if c.status == "timing" and not c.timing and not view.status.status.ended:
        return f"round {live.get('round')} of {live.get('rounds')}" if live else "to be timed"
    if c.verdict is None:
        return ""
    return "no speed claim" if c.verdict != "verified" or (c.timing and c.timing.speed is Speed.NOT_CLAIMED) else "not timed"


def candidates(view: View) -> dict[str, Any]:
    rows, ended = [], view.status.status.ended
    for c in view.candidates.values():
        # A candidate has a speed of its own only when it is right.
        timing = c.timing if c.verdict in (None, "verified") and c.timing and c.timing.speed is not Speed.NOT_CLAIMED else None
        rows.append(
            CandidateRow(c, timing, c.verdict is None and not ended, c.id == view.best, _word(view, c), _row_note(view, c))
        )
    return {
        "rows": rows,
        "verified": sum(r.view.verdict == "verified" for r in rows),
        "won": won(view),
        "best": view.best,
        "ended": ended,
        "status": view.status.status.value,
    }


def won(view: View) -> tuple[str, ...]:
    """The best and every candidate that it stands on, the best first."""
    line: list[str] = []
    candidate = view.candidates.get(view.best or "")
    while candidate is not None and candidate.id not in line:
        line.append(candidate.id)
        candidate = view.candidates.get(candidate.parent or "")
    return tuple(line)


def output(view: View) -> dict[str, Any]:
    return {"streams": {name: text[-6000:] for name, text in view.log.items() if text.strip()}}


def bar(view: View, cid: str) -> dict[str, Any]:
    """The line over a candidate's panels: what it is, and what can be done with it."""
    candidate = view.candidates.get(cid)
    branch = _asked(view, "branch")
    decision = rail.decision_of(view, cid)
    return {
        "cid": cid,
        "tie": decision.tie if decision else "",
        "title": candidate.title if candidate else "",
        "todo": candidate.todo if candidate else None,
        "parent": candidate.parent if candidate else None,
        "by_hand": bool(candidate) and candidate.author == "person",
        "note": candidate.note if candidate else "",
        "word": _word(view, candidate) if candidate else None,
        "best": cid == view.best,
        "ended": view.status.status.ended,
        "branch_asked": branch.by if branch else "",
        "reading": reading(candidate),
        "borrowed": candidate is not None and Label.NO_OWN_KERNELS in candidate.labels,
    }


def diff(view: View, cid: str) -> dict[str, Any]:
    candidate = view.candidates.get(cid)
    parent = view.candidates.get(candidate.parent or "") if candidate else None
    return {
        "cid": cid,
        "files": candidate.files if candidate else {},
        "title": candidate.title if candidate else "",
        "parent": parent.id if parent else None,
        "parent_files": parent.files if parent else None,
        "source": view.header.source if view.header else None,
        "ended": view.status.status.ended,
    }


def build(view: View, cid: str) -> dict[str, Any]:
    candidate = view.candidates.get(cid)
    return {
        "cid": cid,
        "build": candidate.build if candidate else None,
        "verdict": candidate.verdict if candidate else None,
        "ended": view.status.status.ended,
        "under_way": _under_way(view, candidate, "building"),
        "has_kernels": bool(candidate) and any(p.startswith("kernels/") for p in candidate.files),
    }


@dataclass(frozen=True)
class CheckLine:
    """A row of the check matrix. `key` names its draw for a replay, empty where there is none; `again` is the newest replay."""

    row: CheckRow
    key: str = ""
    again: ReplayView | None = None
    compared: Comparison | None = None


def _line(view: View, row: CheckRow, settled: bool) -> CheckLine:
    if row.replay is None or not settled:
        return CheckLine(row)
    key = replay_key(row.replay)
    again = view.replays.get(key)
    return CheckLine(row, key, again, compare(row, again.seen) if again and again.seen else None)


def checks(view: View, cid: str) -> dict[str, Any]:
    candidate = view.candidates.get(cid)
    settled = candidate is not None and candidate.verdict is not None and bool(candidate.rows)
    rows = (candidate.rows if candidate else ()) or view.live_rows.get(cid, ())
    grouped = {key: [_line(view, r, settled) for r in rows if r.group == key] for key in GROUPS}
    check = (candidate.check if candidate else None) or {}
    return {
        "cid": cid,
        "columns": [
            [(GROUPS[k], grouped[k]) for k in keys if grouped[k]]
            for keys in (("declared", "structured", "numerics"), ("state", "honesty", "reach"))
        ],
        "passed": sum(r.passed is True for r in rows),
        "failed": sum(r.passed is False for r in rows),
        "not_run": sum(r.not_run for r in rows),
        "of": sum(r.passed is not None or r.not_run for r in rows),  # information is none of them
        "verdict": candidate.verdict if candidate else None,
        "sentence": candidate.sentence if candidate else "",
        "labels": candidate.labels if candidate else (),
        "hack": check.get("hack"),
        "suspects": [kind for kind in check.get("suspects") or () if kind != check.get("hack")],
        "coverage": check.get("coverage"),
        "required": bool(view.header and view.header.require_own_kernels),
        "ended": view.status.status.ended,
        "under_way": _under_way(view, candidate, "checking"),
    }


def timing(view: View, cid: str) -> dict[str, Any]:
    candidate = view.candidates.get(cid)
    report = report_of(candidate) if candidate else view.reference_timing
    return {
        "cid": cid,
        "report": report,
        "confirmed": bool(candidate and candidate.confirmed),
        "significant": bool(report) and report.speed is Speed.FASTER,
        "live": None if report or view.status.status.ended else view.live_timing.get(cid),
        "verdict": candidate.verdict if candidate else None,
        "ended": view.status.status.ended,
        "under_way": _under_way(view, candidate, "timing") if candidate else view.status.status is Status.TIMING,
    }


def profile(view: View, cid: str) -> dict[str, Any]:
    candidate = view.candidates.get(cid)
    asked = _asked(view, "profile")
    return {
        "cid": cid,
        "asked": asked.by if asked and asked.text == cid else "",
        "candidate": view.profiles.get(cid) if cid != REFERENCE else None,
        "reference": view.profiles.get(REFERENCE),
        "finding": candidate.finding if candidate else "",
        "decision": rail.decision_of(view, cid),
        "ended": view.status.status.ended,
        "under_way": _under_way(view, candidate, "profiling"),
        "settled": candidate is not None and candidate.status == "done",
        "analysis": view.analysis and (view.analysis.flops, view.analysis.bytes),
        "median_ms": _median(report_of(candidate)) if candidate else None,
        "reference_ms": _median(view.reference_timing, "eager") or (view.analysis.eager_ms if view.analysis else None),
        "verdict": candidate.verdict if candidate else None,
    }


def _median(report: TimingReport | None, arm: str = "candidate") -> float | None:
    return next((a.median_ms for a in report.arms if a.arm == arm), None) if report else None
