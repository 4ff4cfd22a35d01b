"""From one applied outcome to the events that tell it: whatever differs between the state before and after is said once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from agents.engineers import reads_text
from agents.events.coalesce import pieces
from agents.events.panels import analysis_view, candidate_payload, plan_payloads, profile_view, rows_apart, timing_payload
from agents.events.sentences import doing_sentence, lane_lines, stream_of
from agents.events.shrink import Payload, bounded, cut, plain
from agents.events.words import ControlView, Event, EventKind, ResultView, RunHeader, StatusLine, UsageView
from agents.loop.steering import refusal
from agents.result import line_of, sentence_of, verdict_of
from agents.state import BlobStore, Broken, Control, Outcome, State, Status, Steered, Step, Unusable
from gpu_runner.contracts import BlobRef, Progress

Said = tuple[EventKind, str, Payload]


def created(state: State, at: float, seq0: int = 0, synthetic: bool = False) -> list[Event]:
    """The first events of a run, numbered from `seq0` + 1."""
    options = state.options
    header = RunHeader(
        run=state.run,
        name=state.name,
        target=options.target,
        protocol=options.protocol.id,
        mode=options.mode,
        precision=options.precision,
        require_own_kernels=options.require_own_kernels,
        width=options.search.width,
        beam=options.search.beam,
        engineers={"planner": options.planner, "coder": options.coder, "verifier": options.verifier},
        models={role: choice.model for role, choice in options.models.items()},
        budget=options.budget.model_dump(mode="json"),
        source=state.source,
        synthetic=synthetic,
    )
    said: list[Said] = [
        ("run.created", "system", bounded(plain(header))),
        ("run.status", "system", _status(state)),
        ("usage.changed", "system", _usage(state)),
    ]
    return _numbered(said, at, seq0)


def events_of(
    before: State, outcome: Outcome | None, after: State, at: float, seq0: int, blobs: BlobStore | None = None
) -> list[Event]:
    """The events of one `apply` (or of `start`, with no outcome), numbered from `seq0` + 1; an empty list when nothing changed.

    `at` is seconds since the epoch. With `blobs` the analysis and the profiles show more than their summary.
    """
    said: list[Said] = []
    if isinstance(outcome, Unusable | Broken) and before.step != after.step:
        stream = "engineer" if isinstance(outcome, Unusable) else "runner"
        said += [("log.lines", stream, {"stream": stream, "text": piece}) for piece in pieces(cut(outcome.reason, 2000) + "\n")]
    if after.analysis is not None and before.analysis is None:
        said.append(("analysis.done", "runner", analysis_view(after.analysis, blobs)))
    said += _controls(before, outcome, after)
    said += _plan(before, after)
    said += _candidates(before, after)
    said += _profiles(before, after, blobs)
    for decision in after.decisions[len(before.decisions) :]:
        said.append(("decision.made", "engineer", bounded(plain(decision))))
    if after.best != before.best:
        said.append(("best.changed", "system", {"candidate": after.best}))
    if after.reference_timing is not None and after.reference_timing != before.reference_timing:
        said.append(("reference.timed", "runner", timing_payload(after.reference_timing)))
    if after.usage != before.usage:
        said.append(("usage.changed", "system", _usage(after)))
    if (after.status, after.step, after.current) != (before.status, before.step, before.current):
        said.append(("run.status", "system", _status(after)))
    if after.status.ended and not before.status.ended:
        said.append(("run.finished", "system", _result(after)))
    return _numbered(said, at, seq0)


def requested(control: Control, at: float, seq0: int) -> Event:
    """A person's request as it is filed, before the loop takes it."""
    payload = _control(control, "requested", _asked(control))
    return Event(seq=seq0 + 1, kind="control.changed", at=at, who=_who(control), payload=payload)


def events_of_progress(progress: Progress, step: Step, load: Callable[[], State]) -> list[tuple[EventKind, Payload]]:
    """Kinds and payloads of a word of the hands: one, or several where a log text is long.

    `load` gives the run's state, and is called where it is needed alone: words come many times a second, states are large.
    """
    given = plain(progress.payload)
    match progress.kind:
        case "check":
            return [("check.row", bounded({"candidate": step.candidate, "row": given}))]
        case "timing":
            return [("timing.round", bounded({"candidate": step.candidate, **given}))]
        case "stage":
            text, state = cut(str(given.get("text", "")), 200), load()
            line = StatusLine.model_validate(_status(state))
            if step.lane is None:
                line = line.model_copy(update={"doing": text or doing_sentence(state)})
            elif text:
                told = (one.model_copy(update={"doing": text}) if one.number == step.lane else one for one in line.lanes)
                line = line.model_copy(update={"lanes": tuple(told)})
            return [("run.status", plain(line))]
        case "log":
            stream = stream_of(cut(str(given.get("stream") or "runner"), 40), step.lane)
            parts = list(pieces(str(given.get("text", "")))) or [""]
            return [("log.lines", {"stream": stream, "text": part}) for part in parts]


def _numbered(said: list[Said], at: float, seq0: int) -> list[Event]:
    return [Event(seq=seq0 + 1 + i, kind=kind, at=at, who=who, payload=payload) for i, (kind, who, payload) in enumerate(said)]


def _status(state: State) -> Payload:
    waiting = ""
    if state.status is Status.PAUSED:
        waiting = "Paused by a person"
    elif state.status is Status.AWAITING_APPROVAL:
        waiting = "Waits for a person to approve the plan."
    line = StatusLine(
        status=state.status,
        doing="" if state.status is Status.QUEUED else doing_sentence(state),
        waiting=waiting,
        step=state.step,
        candidate=state.current,
        stop_cause=state.stop_cause,
        error=cut(state.error, 2000),
        round=state.round.number if state.round else 0,
        lanes=lane_lines(state),
    )
    return bounded(plain(line))


def _usage(state: State) -> Payload:
    return plain(UsageView(usage=state.usage, budget=state.options.budget.model_dump(mode="json")))


def _plan(before: State, after: State) -> list[Said]:
    plan, old = after.plan, before.plan
    if plan is None or plan == old:
        return []
    if old is None or (plan.version, plan.approved, len(plan.todos)) != (old.version, old.approved, len(old.todos)):
        who = "engineer" if not plan.note.startswith("Edited by") else "system"
        head, rest = plan_payloads(plan)
        return [("plan.made", who, head), *(("todo.changed", who, todo) for todo in rest)]
    known = {todo.id: todo for todo in old.todos}
    return [
        ("todo.changed", "system", bounded(plain(todo.model_copy(update={"data": {}}))))
        for todo in plan.todos
        if known.get(todo.id) != todo
    ]


def _candidates(before: State, after: State) -> list[Said]:
    known = {candidate.id: candidate for candidate in before.candidates}
    said: list[Said] = []
    for candidate in after.candidates:
        old = known.get(candidate.id)
        if candidate == old:
            continue
        payload, whole = candidate_payload(candidate)
        if not whole and candidate.check and (old is None or old.check != candidate.check):
            said += [("check.row", "runner", {"candidate": candidate.id, "row": row}) for row in rows_apart(candidate)]
        said.append(("candidate.changed", "engineer" if old is None else "runner", payload))
    return said


def _profiles(before: State, after: State, blobs: BlobStore | None) -> list[Said]:
    said: list[Said] = []
    if after.reference_profile is not None and after.reference_profile != before.reference_profile:
        said.append(
            ("profile.done", "runner", profile_view(None, after.reference_profile, "", after.reference_diagnosis, blobs))
        )
    known = {candidate.id: candidate.profile for candidate in before.candidates}
    for candidate in after.candidates:
        if candidate.profile is not None and candidate.profile != known.get(candidate.id):
            view = profile_view(candidate.id, candidate.profile, candidate.finding, candidate.diagnosis, blobs)
            said.append(("profile.done", "runner", view))
    return said


def _controls(before: State, outcome: Outcome | None, after: State) -> list[Said]:
    said: list[Said] = []
    steered = outcome.control if isinstance(outcome, Steered) else None
    waiting = {control.id for control in after.controls}
    if steered is not None and steered.id not in before.steered and steered.id in after.steered:
        if refused := refusal(before, steered):
            said.append(_changed(steered, "refused", refused))
        elif steered.id in waiting:
            said.append(_changed(steered, "requested", f"{_asked(steered)}: waits for the attempt under way to end"))
        else:
            said.append(_changed(steered, "applied", _applied(steered, before, after)))
    for control in before.controls:
        if control.id in waiting:
            continue
        if _child(control, before, after):
            said.append(_changed(control, "applied", _applied(control, before, after)))
        else:
            said.append(_changed(control, "refused", f"{_asked(control)}: the run ended before its turn"))
    return said


def _changed(control: Control, state: Literal["requested", "applied", "refused"], text: str) -> Said:
    return ("control.changed", _who(control), _control(control, state, text))


def _child(control: Control, before: State, after: State) -> str:
    """The candidate that a person's program became in this step; empty when it became none."""
    born = after.candidates[len(before.candidates) :]
    return next((c.id for c in born if c.author == "person" and _refs(c.files) == control.data.get("files")), "")


def _refs(files: dict[str, BlobRef]) -> dict[str, dict[str, Any]]:
    return {path: ref.model_dump(mode="json") for path, ref in files.items()}


def _asked(control: Control) -> str:
    """What is asked, where the kind of the request alone does not say it."""
    key = {"hint": "text", "candidate": "title", "branch": "from", "profile": "candidate"}.get(control.kind, "")
    return cut(str(control.data.get(key, "")), 500)


def _applied(control: Control, before: State, after: State) -> str:
    """What was done with it, so that nobody waits for what does not come."""
    asked, options = _asked(control), after.options
    match control.kind:
        case "hint" if not reads_text(options.planner, options.coder):
            return f"{asked} (kept for people: this run's engineer reads no text)"
        case "branch":
            return f"{asked}, where the next candidate starts"
        case "candidate":
            return f"{asked}, as {_child(control, before, after)}"
    return asked


def _control(control: Control, state: Literal["requested", "applied", "refused"], text: str) -> Payload:
    return bounded(plain(ControlView(id=control.id, kind=control.kind, state=state, by=control.by, text=text)))


def _who(control: Control) -> str:
    return control.by or "system"


def _result(state: State) -> Payload:
    line: dict[str, Any] = line_of(state)
    view = ResultView(
        verdict=verdict_of(state),
        stop_cause=state.stop_cause,
        sentence=sentence_of(state),
        best=state.best,
        speedup_vs_eager=line["speedup_vs_eager"],
        speedup_vs_compile=line["speedup_vs_compile"],
        result=line,
    )
    return bounded(plain(view))
