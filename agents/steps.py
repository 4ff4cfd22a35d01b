"""From a step to work and from work to an outcome: the edge where the pure loop meets the hands and the engineers.

Every shell uses these: `task_for` and `outcome_of` around a hands step, `think` for a step of an engineer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import PydanticSerializationError

from agents.diagnosis import diagnosis_of
from agents.engineers import BudgetSpent, Context, Engineer, Hands, UnusableAnswer, engineer
from agents.fingerprint import fingerprint
from agents.llm.doors import Doors, own_door
from agents.loop.rounds import allotted, device_left, siblings
from agents.loop.rules import find, ground, parent_of_next
from agents.loop.ties import tied
from agents.state import (
    Analysed,
    AnalysisSummary,
    BlobStore,
    Broken,
    Built,
    Candidate,
    Checked,
    Coded,
    Control,
    Decided,
    Options,
    Outcome,
    Planned,
    Profiled,
    Rating,
    State,
    Step,
    Timed,
    Todo,
    Unusable,
)
from gpu_runner.contracts import (
    PROTOCOLS,
    AnalyseTask,
    Analysis,
    BlobRef,
    BuildReport,
    BuildTask,
    CandidateFiles,
    CheckReport,
    CheckTask,
    Limits,
    ProfileReport,
    ProfileTask,
    Protocol,
    Replay,
    Report,
    Source,
    Task,
    TimeTask,
    TimingReport,
    canonical_json,
)
from gpu_runner.hands import Cancelled

log = logging.getLogger(__name__)

Rate = Callable[[Sequence[str]], Sequence[Rating]]  # a judge's ratings of these candidates of the run

# Seconds of wall clock a step may take at most; `confirm` compiles every baseline arm.
STEP_LIMITS_S = {"analyse": 180.0, "build": 300.0, "check": 300.0, "time": 240.0, "profile": 180.0, "confirm": 900.0}
LOG_TAIL = 4000  # characters of a log that the state keeps; the whole is a blob
LEAST_S = 30.0


def loop_protocol(options: Options) -> Protocol:
    """What candidates are checked and timed with inside the loop: `quick`, at the tolerances and thresholds of the run."""
    full = options.protocol
    same = {
        "rtol": full.rtol,
        "signal_error": full.signal_error,
        "ratio_full": full.ratio_full,
        "ratio_reordered": full.ratio_reordered,
        "confidence": full.confidence,
        "faster_ratio": full.faster_ratio,
    }
    return PROTOCOLS["quick"].model_copy(update=same)


def source_of(state: State, blobs: BlobStore) -> Source:
    """The reference as the hands take it."""
    return Source(text=blobs.get(state.source).decode(), entry=state.entry)


def files_of(candidate: Candidate, blobs: BlobStore) -> CandidateFiles:
    """The sources of a candidate."""
    return CandidateFiles(files={path: blobs.get(ref).decode() for path, ref in candidate.files.items()})


def task_for(step: Step, state: State, blobs: BlobStore) -> Task:
    """The task of a hands step. ValueError for a step of an engineer; KeyError when a blob is gone."""
    if not step.by_hands:
        raise ValueError(f"a {step.kind} step is no task for the hands")
    options, limit_s, source = state.options, step_limit_s(step, state), source_of(state, blobs)
    if step.kind == "analyse":
        limits = Limits.of(options.target, limit_s)
        return AnalyseTask(target=options.target, limits=limits, source=source, protocol=options.protocol, mode=options.mode,
                           precision=options.precision)  # fmt: skip
    candidate = find(state, step.candidate)
    files = files_of(candidate, blobs) if candidate else None
    if step.kind == "profile":
        # The first one may be taken from before; whoever asks for another wants a new one.
        return measuring("profile", options, source, files, limit_s, fresh=state.reference_profile is not None)
    if files is None and step.kind != "confirm":
        raise ValueError(f"a {step.kind} step needs a candidate, and this one names none")
    full = options.protocol if state.stop_cause is not None else None
    return measuring(step.kind, options, source, files, limit_s, full)


def measuring(
    kind: str, options: Options, source: Source, files: CandidateFiles | None, limit_s: float,
    protocol: Protocol | None = None, *, fresh: bool = False, brief: bool = False,
) -> Task:  # fmt: skip
    """A build, check, timing (or confirmation) or profile of a candidate as the run's options have it; `files` None: a profile
    of the reference. `protocol`: the loop's where None. `fresh`, `brief`: of a profile."""
    if kind == "check":
        return checking(options, source, files, limit_s, protocol)
    given = _given(options, source, files, limit_s)
    if kind == "build":
        return BuildTask(target=given["target"], limits=given["limits"], candidate=given["candidate"])
    if kind == "profile":
        return ProfileTask(**given, fresh=fresh, brief=brief or options.brief_profiles)
    return TimeTask(**given, protocol=protocol or loop_protocol(options))


def checking(
    options: Options, source: Source, files: CandidateFiles | None, limit_s: float = STEP_LIMITS_S["check"],
    protocol: Protocol | None = None, replay: Replay | None = None,
) -> CheckTask:  # fmt: skip
    """A check, as above."""
    protocol, own = protocol or loop_protocol(options), options.require_own_kernels
    given = _given(options, source, files, limit_s)
    return CheckTask(**given, protocol=protocol, require_own_kernels=own, replay=replay)


def _given(options: Options, source: Source, files: CandidateFiles | None, limit_s: float) -> dict[str, Any]:
    return {
        "target": options.target, "limits": Limits.of(options.target, limit_s), "source": source, "candidate": files,
        "mode": options.mode, "precision": options.precision,
    }  # fmt: skip


def replay_task(state: State, candidate: str, replay: Replay, blobs: BlobStore) -> CheckTask:
    """One draw of a candidate's check again, under the protocol that it was judged by. KeyError for an unknown candidate, one
    that was never checked, or a blob that is gone."""
    found, options = state.candidate(candidate), state.options
    if found.check is None:
        raise KeyError(f"{candidate} was not checked")
    full = options.protocol if found.check.protocol == options.protocol.id else None
    return checking(options, source_of(state, blobs), files_of(found, blobs), protocol=full, replay=replay)


def step_limit_s(step: Step, state: State) -> float:
    """The step's own limit, cut to what is left of the run's time (a confirmation is always given its time)."""
    limit, wall_s = STEP_LIMITS_S[step.kind], state.options.budget.wall_s
    if step.lane is not None and state.round is not None:
        left = device_left(state.round.lanes[step.lane - 1])
        limit = limit if left is None else min(limit, max(1.0, left))
        return limit if wall_s is None else min(limit, max(LEAST_S, wall_s - state.usage.wall_s))
    if wall_s is None or state.stop_cause is not None:
        return limit
    return min(limit, max(LEAST_S, wall_s - state.usage.wall_s))


def outcome_of(step: Step, state: State, report: Report, blobs: BlobStore, at: float, seconds: float) -> Outcome:
    """What a report means to the loop. `at`: seconds since the epoch when the step ended, `seconds`: how long it took.

    Big parts (analysis with its graph, logs, profiles) go to `blobs`. A report of another kind than the step asked for is the
    hands' fault, hence `Broken`.
    """
    return _writable(_outcome_of(step, state, report, blobs, at, seconds))


def _outcome_of(step: Step, state: State, report: Report, blobs: BlobStore, at: float, seconds: float) -> Outcome:
    match report:
        case Analysis() if step.kind == "analyse":
            summary = AnalysisSummary(
                blob=_put(blobs, canonical_json(report)),
                refusal=report.refusal,
                eager_ms=report.eager_ms,
                flops=report.flops,
                bytes=report.bytes,
                nulls=report.nulls,
                labels=report.labels,
            )
            return Analysed(step=step.index, at=at, seconds=seconds, analysis=summary)
        case BuildReport() if step.kind == "build":
            short, whole = _short_log(report.log, blobs)
            return Built(step=step.index, at=at, seconds=seconds, report=report.model_copy(update={"log": short}), log=whole)
        case CheckReport() if step.kind == "check":
            short, whole = _short_log(report.log, blobs)
            return Checked(step=step.index, at=at, seconds=seconds, report=report.model_copy(update={"log": short}), log=whole)
        case TimingReport() if step.kind == "time":
            return Timed(step=step.index, at=at, seconds=seconds, report=report)
        case TimingReport() if step.kind == "confirm":
            candidate = find(state, step.candidate)
            check = candidate.check if candidate else None
            return Timed(step=step.index, at=at, seconds=seconds, report=report, check=check)
        case ProfileReport() if step.kind == "profile":
            blob = _put(blobs, canonical_json(report))
            return Profiled(
                step=step.index, at=at, seconds=seconds, blob=blob, finding=report.finding, coverage=report.coverage,
                diagnosis=diagnosis_of(report, _call_ms(state, step.candidate)),
            )  # fmt: skip
    reason = f"The hands answered a {step.kind} step with a report of kind {report.kind!r}."
    return Broken(step=step.index, at=at, seconds=seconds, reason=reason)


def _call_ms(state: State, candidate_id: str | None) -> float | None:
    """What one call of a candidate, or of the reference, was timed at; None before that."""
    candidate = find(state, candidate_id)
    if candidate is None:
        return state.analysis.eager_ms if state.analysis else None
    report = candidate.confirmed or candidate.timing
    return next((arm.median_ms for arm in report.arms if arm.arm == "candidate"), None) if report else None


def _put(blobs: BlobStore, text: str) -> BlobRef:
    return blobs.put(text.encode(errors="replace"))


def _writable(outcome: Outcome) -> Outcome:
    """The outcome with every text such that it can be written: programs and models may utter lone surrogates."""
    try:
        outcome.model_dump_json()
    except PydanticSerializationError:
        return type(outcome).model_validate(_scrubbed(outcome.model_dump()))
    return outcome


def _scrubbed(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_scrubbed(key): _scrubbed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scrubbed(item) for item in value]
    return value


def _short_log(text: str, blobs: BlobStore) -> tuple[str, BlobRef | None]:
    if not text:
        return "", None
    short = text if len(text) <= LOG_TAIL else "…\n" + text[-LOG_TAIL:]
    return short, _put(blobs, text)


def think(
    step: Step,
    state: State,
    blobs: BlobStore,
    say: Callable[[str], None] = lambda text: None,
    cancelled: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.time,
    doors: Doors = own_door,
    asked: Callable[[dict[str, Any]], None] = lambda payload: None,
    hands: Hands | None = None,
    called: Callable[[dict[str, Any]], None] = lambda payload: None,
    rate: Rate = lambda candidates: (),
) -> Outcome:
    """Ask the engineer of a plan, code or decide step. An answer that cannot be used, or an engineer that fails, is `Unusable`.

    Raises `gpu_runner.hands.Cancelled` when the engineer stopped because `cancelled()` turned true. An engineer that does not
    exist, and a blob that is gone, are `Broken`: no other answer would help.
    """
    began = clock()
    role = {"plan": state.options.planner, "code": state.options.coder, "decide": state.options.verifier}[step.kind]
    try:
        worker = engineer(role)
        state = allotted(state, step)
        context = replace(context_of(state, blobs, say, cancelled), doors=doors, asked=asked, hands=hands, called=called)
    except (ValueError, KeyError, ImportError) as error:
        return Broken(
            step=step.index, at=clock(), seconds=clock() - began, reason=f"The engineer {role!r} cannot work: {error}"
        )
    try:
        outcome = _ask(worker, step, state, context, blobs)
    except Cancelled:
        raise
    except UnusableAnswer as error:
        reason = str(error) or "The answer was empty."
        spent = error.cause if isinstance(error, BudgetSpent) else None
        outcome = Unusable(step=step.index, at=0.0, reason=reason, usage=error.usage, spent=spent)
    except Exception as error:  # whatever an engineer does wrong is one more kind of bad answer, never the end of a run
        log.exception("the engineer %s failed at the %s step", role, step.kind)
        reason = f"The engineer {role!r} failed: {type(error).__name__}: {error}"
        outcome = Unusable(step=step.index, at=0.0, reason=reason[:1000])
    update: dict[str, object] = {"ratings": _rated(step, state, rate)} if isinstance(outcome, Decided | Unusable) else {}
    at = clock()
    return _writable(outcome.model_copy(update=update | {"at": at, "seconds": max(0.0, at - began)}))


def _rated(step: Step, state: State, rate: Rate) -> tuple[Rating, ...]:
    """What a judge says of the candidates among which the one that is decided on is a tie; nothing where there is none. A judge
    that fails is one that says nothing: it never ends a run."""
    tie = tied(state) if step.kind == "decide" else ()
    if step.candidate is None or step.candidate not in tie:
        return ()
    try:
        return tuple(rate(tie))
    except Cancelled:
        raise
    except Exception as error:
        log.exception("the judge failed at the decide step %s", step.index)
        return (Rating(candidate=step.candidate, broken=f"It failed: {type(error).__name__}: {error}"[:400]),)


def context_of(
    state: State,
    blobs: BlobStore,
    say: Callable[[str], None] = lambda text: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Context:
    """What an engineer sees of a state. KeyError when there is no analysis yet or a blob is gone."""
    if state.analysis is None:
        raise KeyError("the program is not analysed yet")
    profile = state.reference_profile
    return Context(
        state=state,
        source=blobs.get(state.source).decode(),
        analysis=Analysis.model_validate_json(blobs.get(state.analysis.blob)),
        blobs=blobs,
        reference_profile=ProfileReport.model_validate_json(blobs.get(profile)) if profile else None,
        say=say,
        cancelled=cancelled,
    )


def _ask(worker: Engineer, step: Step, state: State, context: Context, blobs: BlobStore) -> Outcome:
    if step.kind == "plan":
        plan = worker.plan(context)
        return Planned(step=step.index, at=0.0, todos=plan.todos, note=plan.note, usage=plan.usage)
    if step.kind == "decide":
        candidate = state.candidate(step.candidate or "")
        answer = worker.decide(context, candidate)
        decision = answer.decision.model_copy(update={"candidate": candidate.id})
        return Decided(step=step.index, at=0.0, decision=decision, usage=answer.usage)
    todo = state.todo(step.todo or "")
    wish, attempt = find(state, state.branch_from), find(state, step.candidate)
    base = attempt if step.lane is not None else wish or attempt
    if base is None:
        parent, failed = None if step.lane is not None else find(state, state.best), None
    elif base.verified:
        parent, failed = base, None
    else:
        parent, failed = ground(state, base.parent), base
    code = worker.code(context, _in_its_lane(state, todo, step), parent, failed)
    return Coded(
        step=step.index,
        at=0.0,
        files={path: _put(blobs, text) for path, text in code.files.files.items()},
        sha256=code.files.sha256,
        fingerprint=fingerprint(code.files.files),
        title=code.title[:200],
        todo=todo.id,
        parent=step.candidate if step.lane is not None else parent_of_next(state, todo.id),
        skill="from_scratch" if base is None else "feedback",
        note=code.note,
        usage=code.usage,
    )


def _in_its_lane(state: State, todo: Todo, step: Step) -> Todo:
    """The item as the Coder of a lane is told it: that others write for it too, so that they go different ways."""
    if step.lane is None:
        return todo
    mine, of = siblings(state, step.lane)
    if of == 1:
        return todo
    way = (
        f"{of} programs are written for this at the same time and the fastest right one is kept; this is number {mine}. "
        "Choose a way of your own: the less obvious, the higher the number."
    )
    return todo.model_copy(update={"constraints": (*todo.constraints, way)})


def hand_made(control: str, by: str, files: dict[str, str], parent: str | None, title: str, blobs: BlobStore) -> Control:
    """A person's candidate as a control with the id `control`. ValueError with a sentence when the files are no candidate."""
    checked = CandidateFiles(files=files)
    _ = checked.manifest  # a malformed candidate.toml is refused here, not in the middle of a run
    refs = {path: _put(blobs, text).model_dump() for path, text in checked.files.items()}
    data = {
        "files": refs,
        "sha256": checked.sha256,
        "fingerprint": fingerprint(checked.files),
        "parent": parent,
        "title": title,
    }
    return Control(id=control, kind="candidate", by=by, data=data)
