"""Events as one-line sentences for the log of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agents.events import Event, View
from stitchweb.core import numbers

# Shown by their panels as they come; in the log they would push the decisive lines out of sight.
QUIET = frozenset({"check.row", "timing.round", "log.lines", "usage.changed"})


_REQUESTS = {"candidate": "edit by hand", "edit_plan": "edit of the plan", "approve_plan": "approval of the plan"}


def request_words(kind: str) -> str:
    """What a request of a person is called."""
    return _REQUESTS.get(kind, kind)


@dataclass(frozen=True)
class EventLine:
    """`after` is seconds since the run's first event."""

    seq: int
    after: float
    who: str
    kind: str
    text: str
    person: bool


def _speed(report: dict[str, Any] | None) -> str:
    if not report or not report.get("over_eager"):
        return ""
    over = report["over_eager"]
    return f", {numbers.ratio(over.get('value'))}× over eager ({numbers.ratio_range(over.get('low'), over.get('high'))})"


def _candidate(p: dict[str, Any]) -> str:
    text = f"{p.get('id')}: {p.get('verdict') or p.get('status')}"
    if p.get("verdict") is None and p.get("status") == "coded":
        return f"{text}, {p.get('title', '')}"
    return text + _speed(p.get("confirmed") or p.get("timing"))


def _status(p: dict[str, Any]) -> str:
    told = [p[key] for key in ("doing", "waiting", "error") if p.get(key)]
    return ": ".join(told) or str(p.get("status", "")).replace("_", " ")


def _replay(p: dict[str, Any]) -> str:
    seen = p.get("seen") or {}
    told = p.get("doing") or p.get("waiting") or seen.get("value") or p.get("sentence")
    return f"replay {p.get('state')}" + (f", {told}" if told else "")


def _asked(p: dict[str, Any]) -> str:
    about = "" if p.get("counted") else "about "
    cost = f"{numbers.dollars(p.get('money'))}" if p.get("price_known") else "price not known"
    text = f"{p.get('role')} asked {p.get('model')}: {about}{p.get('tokens_in')} tokens in, {p.get('tokens_out')} out, {cost}, "
    text += numbers.seconds(p.get("seconds"))
    return f"{text}. {p['error']}" if p.get("error") else text


def _gain(p: dict[str, Any]) -> str:
    text = f"{p.get('id')} {p.get('title', '')}: {p.get('status')}"
    if p.get("measured"):
        return f"{text}, measured {numbers.ratio(p['measured'])}×"
    return f"{text}, predicted {numbers.ratio(p['predicted'])}×" if p.get("predicted") else text


def _sentence(kind: str, p: dict[str, Any]) -> str:
    if kind == "run.created":
        return f"{p.get('name')} for {p.get('target')}, protocol {p.get('protocol')}"
    if kind == "run.status":
        return _status(p)
    if kind == "analysis.done":
        refusal = p.get("refusal")
        return refusal["sentence"] if refusal else f"{numbers.flop(p.get('flops'))}, {numbers.size(p.get('bytes'))} per forward"
    if kind == "plan.made":
        count = len(p.get("todos", ()))
        return f"plan v{p.get('version')} with {count} to-do{'' if count == 1 else 's'}"
    if kind == "todo.changed":
        return _gain(p)
    if kind == "candidate.changed":
        return _candidate(p)
    if kind == "profile.done":
        return p.get("finding") or p.get("reason") or f"{p.get('candidate') or 'reference'} profiled"
    if kind == "reference.timed":
        return "baselines timed" if p.get("arms") else p.get("sentence", "")
    if kind == "decision.made":
        told = f"{p.get('route')}: {p.get('sentence') or p.get('bottleneck', '')}"
        return f"{p['tie']} {told}" if p.get("tie") else told
    if kind == "best.changed":
        return f"best is {p.get('candidate')}" if p.get("candidate") else "no best candidate"
    if kind == "control.changed":
        text = f"{request_words(str(p.get('kind', '')))} {p.get('state')}"
        return f"{text}: {p['text']}" if p.get("text") else text
    if kind == "model.asked":
        return _asked(p)
    if kind == "tool.called":
        return f"{p.get('role')} called {p.get('tool')}: {p.get('sentence')}"
    if kind == "replay.changed":
        return f"{p.get('candidate')}, {p.get('name')}: " + _replay(p)
    if kind == "run.finished":
        return str(p.get("sentence", ""))
    return ""


def lines_of(view: View, events: Iterable[Event]) -> list[EventLine]:
    """One line per event, in their order."""
    start = view.started_at
    return [
        EventLine(
            seq=e.seq,
            after=e.at - start if start is not None else 0.0,
            who=e.who,
            kind=e.kind,
            text=_sentence(e.kind, e.payload)[:400],
            person=e.kind == "control.changed" and e.who not in ("engineer", "runner", "system"),
        )
        for e in events
    ]
