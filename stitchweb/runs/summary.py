"""Storing a run's state, and the columns that lists show from it. The state stays the truth."""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils import timezone

from agents.events import storable
from agents.result import line_of, sentence_of, verdict_of
from agents.state import State
from stitchweb.runs.models import Run, RunState
from stitchweb.runs.signals import tell_ended

COLUMNS = [
    "status", "step", "candidates", "best", "speed", "speedup", "speedup_low", "speedup_high", "speedup_compile", "coverage",
    "verdict", "stop_cause", "sentence", "started_at", "ended_at", "changed_at", "device_s", "tokens", "money",
]  # fmt: skip


def store(run: Run, state: State) -> None:
    """Keep the state and what follows from it, and say so when it ended. Two queries; the transaction is the caller's."""
    had_ended = run.ended
    put_columns(run, state)
    run.save(update_fields=COLUMNS)
    kept = storable({"state": state.model_dump(mode="json"), "result": line_of(state) if state.status.ended else None})
    RunState.objects.update_or_create(run=run, defaults=kept)
    if run.ended and not had_ended:
        tell_ended(run)


def put_columns(run: Run, state: State) -> None:
    """What follows from the state, into the row's fields. Nothing is saved."""
    run.status = state.status.value
    run.step = state.step
    run.candidates = len(state.candidates)
    run.best = state.best or ""
    run.stop_cause = state.stop_cause.value if state.stop_cause else ""
    run.changed_at = timezone.now()
    run.device_s, run.money = state.usage.device_s, state.usage.money
    run.tokens = state.usage.tokens_in + state.usage.tokens_out
    if state.started_at is not None:
        run.started_at = datetime.fromtimestamp(state.started_at, UTC)
    best = state.candidate(state.best) if state.best else None
    report = (best.confirmed or best.timing) if best else None
    over = report.over_eager if report else None
    run.speed = report.speed.value if report else ""
    run.speedup, run.speedup_low, run.speedup_high = (over.value, over.low, over.high) if over else (None, None, None)
    run.coverage = best.check.coverage if best and best.check else None
    run.speedup_compile = report.over_compile.value if report and report.over_compile else None
    if state.status.ended:
        run.verdict = verdict_of(state)
        run.sentence = sentence_of(state)
        run.ended_at = datetime.fromtimestamp(state.now, UTC) if state.now is not None else run.changed_at
