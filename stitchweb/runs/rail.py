"""The strip of stages over a run page: what is behind a candidate, and what is done to it now."""

from __future__ import annotations

from typing import Any

from agents.events import CandidateView, View
from agents.state import Decision, Status

_STAGES = (
    (Status.PLANNING, "plan"),
    (Status.CODING, "code"),
    (Status.BUILDING, "build"),
    (Status.CHECKING, "check"),
    (Status.TIMING, "time"),
    (Status.PROFILING, "profile"),
    (Status.DECIDING, "decide"),
)


def _live_note(view: View, stage: str, candidate: CandidateView | None) -> str:
    """The small line under the stage at work."""
    if candidate is None:
        return "reference" if stage in ("build", "check", "time", "profile") else ""
    live = view.live_timing.get(candidate.id)
    if stage == "check" and view.live_rows.get(candidate.id):
        return f"{len(view.live_rows[candidate.id])} so far"
    if stage == "time" and live:
        return f"round {live.get('round')} of {live.get('rounds')}"
    return ""


def _done_notes(view: View, candidate: CandidateView | None) -> dict[str, dict[str, Any]]:
    """The stages that are behind the candidate, by what they left, each with its small line: a text, or seconds."""
    notes: dict[str, dict[str, Any]] = {}
    if view.plan:
        notes["plan"] = {"text": f"v{view.plan.version}"}
    if candidate is None:
        return notes
    notes["code"] = {"text": candidate.id}
    if build := candidate.build:
        notes["build"] = {"text": "cached"} if build.get("cached") else {"seconds": build.get("seconds")}
    if check := candidate.check:
        passed, failed = check.get("passed") or 0, check.get("failed") or 0
        notes["check"] = {"text": f"{passed} of {passed + failed}"}
    if candidate.timing:
        notes["time"] = {"seconds": candidate.timing.seconds}
    if profile := view.profiles.get(candidate.id):
        notes["profile"] = {"text": profile.status}
    if decided := decision_of(view, candidate.id):
        notes["decide"] = {"text": decided.route}
    return notes


def stages(view: View, candidate: CandidateView | None) -> list[dict[str, Any]]:
    """Each stage of a candidate: name, state done | now | next, and what to note.

    Done is what left something behind, never what merely comes earlier in the row: a run profiles its reference before it
    plans, and a wrong candidate is decided on without a timing.
    """
    if view.status.lanes:
        return _of_lanes(view)
    done = _done_notes(view, candidate)
    rail: list[dict[str, Any]] = []
    for stage, name in _STAGES:
        if stage is view.status.status:
            rail.append({"name": name, "state": "now", "text": _live_note(view, name, candidate)})
        else:
            rail.append({"name": name, "state": "done" if name in done else "next", **done.get(name, {})})
    return rail


def _of_lanes(view: View) -> list[dict[str, Any]]:
    """The stages during a round: how many of its programs are in each."""
    found = []
    for stage, name in _STAGES:
        count = sum(line.status is stage for line in view.status.lanes)
        done = name == "plan" and view.plan is not None
        text = f"{count} program{'' if count == 1 else 's'}" if count else f"v{view.plan.version}" if done and view.plan else ""
        found.append({"name": name, "state": "now" if count else "done" if done else "next", "text": text})
    return found


def decision_of(view: View, cid: str) -> Decision | None:
    """The newest decision about a candidate."""
    return next((Decision.model_validate(d) for d in reversed(view.decisions) if d.get("candidate") == cid), None)
