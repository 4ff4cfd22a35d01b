"""The fold: events in, view out. Pure, and the same whether events come one by one or all at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agents.events.words import (
    LOG_KEPT,
    AnalysisView,
    AskedView,
    CandidateView,
    ControlView,
    Event,
    ProfileView,
    ReplayView,
    ResultView,
    RunHeader,
    StatusLine,
    UsageView,
    View,
)
from agents.state import Plan, Status, Todo
from gpu_runner.contracts import CheckRow, TimingReport


def fold_all(view: View, events: Iterable[Event]) -> View:
    """The view after all of `events`, in their order."""
    for event in events:
        view = fold(view, event)
    return view


def fold(view: View, event: Event) -> View:
    """The view after one more event. One that is already in the view (its number is not above `view.seq`) changes nothing."""
    if event.seq <= view.seq:
        return view
    update = _FOLDS[event.kind](view, event)
    started = view.started_at if view.started_at is not None else event.at
    return view.model_copy(update=update | {"seq": event.seq, "changed_at": event.at, "started_at": started})


_RESTING = (Status.QUEUED, Status.PAUSED, Status.AWAITING_APPROVAL)


def _created(view: View, event: Event) -> dict[str, Any]:
    return {"header": RunHeader.model_validate(event.payload)}


def _status(view: View, event: Event) -> dict[str, Any]:
    line = StatusLine.model_validate(event.payload)
    same = view.status_since is not None and line.status == view.status.status and line.step == view.status.step
    works = not line.status.ended and line.status not in _RESTING and not line.waiting
    began = view.working_since if same and view.working_since is not None else event.at
    return {
        "status": line,
        "status_since": view.status_since if same else event.at,
        "working_since": began if works else None,
    }


def _analysis(view: View, event: Event) -> dict[str, Any]:
    return {"analysis": AnalysisView.model_validate(event.payload)}


def _plan(view: View, event: Event) -> dict[str, Any]:
    plan = Plan.model_validate(event.payload)
    return {"plan": plan, "plan_count": max(view.plan_count, plan.version)}


def _todo(view: View, event: Event) -> dict[str, Any]:
    if view.plan is None:
        return {}
    todo = Todo.model_validate(event.payload)
    known = any(t.id == todo.id for t in view.plan.todos)
    todos = tuple(todo if t.id == todo.id else t for t in view.plan.todos) if known else (*view.plan.todos, todo)
    return {"plan": view.plan.model_copy(update={"todos": todos})}


def _candidate(view: View, event: Event) -> dict[str, Any]:
    """Rows that did not fit into the payload came before it, one by one: they are the candidate's own now."""
    candidate = CandidateView.model_validate(event.payload)
    update: dict[str, Any] = {}
    if candidate.check is not None:
        before = view.candidates.get(candidate.id)
        live = view.live_rows.get(candidate.id, ())
        rows = candidate.rows or live or (before.rows if before else ())
        candidate = candidate.model_copy(update={"rows": rows})
        update["live_rows"] = {k: v for k, v in view.live_rows.items() if k != candidate.id}
    if candidate.status == "done":
        update["live_timing"] = {k: v for k, v in view.live_timing.items() if k != candidate.id}
    return update | {"candidates": view.candidates | {candidate.id: candidate}}


def _row(view: View, event: Event) -> dict[str, Any]:
    key, row = str(event.payload["candidate"]), CheckRow.model_validate(event.payload["row"])

    def same(other: CheckRow) -> bool:
        return (other.group, other.name, other.seed) == (row.group, row.name, row.seed)

    rows = view.live_rows.get(key, ())
    rows = tuple(row if same(r) else r for r in rows) if any(same(r) for r in rows) else (*rows, row)
    return {"live_rows": view.live_rows | {key: rows}}


def _round(view: View, event: Event) -> dict[str, Any]:
    return {"live_timing": view.live_timing | {event.payload.get("candidate") or "reference": event.payload}}


def _profile(view: View, event: Event) -> dict[str, Any]:
    profile = ProfileView.model_validate(event.payload)
    return {"profiles": view.profiles | {profile.candidate or "reference": profile}}


def _reference(view: View, event: Event) -> dict[str, Any]:
    return {"reference_timing": TimingReport.model_validate(event.payload)}


def _decision(view: View, event: Event) -> dict[str, Any]:
    return {"decisions": (*view.decisions, event.payload)}


def _best(view: View, event: Event) -> dict[str, Any]:
    return {"best": event.payload["candidate"]}


def _control(view: View, event: Event) -> dict[str, Any]:
    control = ControlView.model_validate(event.payload)
    return {"controls": view.controls | {control.id: control}}


def _usage(view: View, event: Event) -> dict[str, Any]:
    return {"usage": UsageView.model_validate(event.payload)}


def _asked(view: View, event: Event) -> dict[str, Any]:
    p = event.payload
    role, before = str(p["role"]), view.asked.get(str(p["role"]))
    before = before or AskedView(model=str(p["model"]))
    after = AskedView(
        model=str(p["model"]),
        questions=before.questions + 1,
        failed=before.failed + bool(p.get("error")),
        tokens_in=before.tokens_in + int(p["tokens_in"]),
        tokens_out=before.tokens_out + int(p["tokens_out"]),
        money=before.money + float(p["money"]),
        price_known=before.price_known and bool(p["price_known"]),
        seconds=before.seconds + float(p["seconds"]),
        pages=tuple(dict.fromkeys([*before.pages, *map(str, p.get("pages") or ())])),
        tools=before.tools,
    )
    return {"asked": view.asked | {role: after}}


def _called(view: View, event: Event) -> dict[str, Any]:
    """A call of a tool comes after the question whose answer it is."""
    role, tool = str(event.payload["role"]), str(event.payload["tool"])
    before = view.asked.get(role)
    if before is None:
        return {}
    after = before.model_copy(update={"tools": before.tools | {tool: before.tools.get(tool, 0) + 1}})
    return {"asked": view.asked | {role: after}}


def _replay(view: View, event: Event) -> dict[str, Any]:
    replay = ReplayView.model_validate(event.payload)
    return {"replays": view.replays | {replay.row: replay}}


def _log(view: View, event: Event) -> dict[str, Any]:
    stream = str(event.payload["stream"])
    return {"log": view.log | {stream: (view.log.get(stream, "") + str(event.payload["text"]))[-LOG_KEPT:]}}


def _finished(view: View, event: Event) -> dict[str, Any]:
    return {"result": ResultView.model_validate(event.payload), "live_rows": {}, "live_timing": {}}


_FOLDS = {
    "run.created": _created,
    "run.status": _status,
    "analysis.done": _analysis,
    "plan.made": _plan,
    "todo.changed": _todo,
    "candidate.changed": _candidate,
    "check.row": _row,
    "timing.round": _round,
    "profile.done": _profile,
    "reference.timed": _reference,
    "decision.made": _decision,
    "best.changed": _best,
    "control.changed": _control,
    "usage.changed": _usage,
    "model.asked": _asked,
    "tool.called": _called,
    "replay.changed": _replay,
    "log.lines": _log,
    "run.finished": _finished,
}
