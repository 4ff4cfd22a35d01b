"""Whatever comes back, in whatever order: the loop ends, keeps to its budgets, keeps its best, and survives its own JSON."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.diagnosis import DiagnosedRow, Diagnosis
from agents.events import View, created, events_of, fold, fold_all
from agents.events.shrink import fits
from agents.loop import apply, next_step, start
from agents.loop.rules import best_left, measured, ratio
from agents.state import (
    Analysed,
    AnalysisSummary,
    Broken,
    Budget,
    Built,
    Checked,
    Coded,
    Control,
    Decided,
    Decision,
    Outcome,
    Planned,
    Profiled,
    Rating,
    State,
    Status,
    Steered,
    Step,
    StopCause,
    Timed,
    Unusable,
    Usage,
)
from gpu_runner.contracts import BlobRef, BuildReport, HackClass, TimingReport, Verdict
from tests.agents.loop_world import check, new_state, options, timing, todo

REF = BlobRef(sha256="a" * 64, size=2)
MANY = settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
FEW = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
CONTROLS = ("pause", "resume", "cancel", "approve_plan", "edit_plan", "hint", "candidate", "branch", "profile")
KINDS = ("analyse", "plan", "code", "build", "check", "time", "decide")
QUIET = (
    "now",
    "profiles_asked",
    "reference_diagnosis",
    "steered",
    "hints",
    "branch_from",
    "retries",
    "tries",
    "resume",
    "error",
    "rejected",
)  # fields that no page shows by themselves
seeds = st.integers(0, 2**63)


class World:
    """Random outcomes from one seed. A seed, rather than drawn lists, keeps ten thousand runs quick; Hypothesis still prints
    the one that failed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.at = 0.0
        self.controls = 0

    def state(self) -> State:
        pick = self.random
        budget = Budget(
            attempts=pick.choice([0, 1, 3, 8, 12]),
            wall_s=pick.choice([None, None, 20.0, 300.0]),
            tokens=pick.choice([None, None, 50, 500]),
            money=pick.choice([None, None, 0.05]),
            device_s=pick.choice([None, None, 30.0]),
        )
        return new_state(
            options(
                budget=budget,
                patience=pick.randint(1, 4),
                replan_failures=pick.randint(1, 4),
                approve_plan=pick.random() < 0.2,
                target_speedup=pick.choice([None, None, 1.5]),
                judge_ties=pick.random() < 0.4,
            )
        )

    def outcome(self, state: State) -> Outcome:
        """Mostly what answers the step that is due; sometimes something late, foreign, broken, malformed or from a person."""
        pick, step = self.random, next_step(state)
        self.at += pick.choice([0.0, 0.5, 3.0, -1.0])
        if pick.random() < 0.08 or not isinstance(step, Step):
            return Steered(step=state.step, at=self.at, control=self.control(state, must_move=not isinstance(step, Step)))
        index = step.index if pick.random() < 0.9 else step.index + pick.choice([-1, 1])
        kind = step.kind if pick.random() < 0.93 else pick.choice(KINDS)
        common = {"step": index, "at": self.at, "seconds": pick.choice([0.0, 1.0, 4.0])}
        if pick.random() < 0.06:
            return Broken(reason="The machine failed.", **common)
        if pick.random() < 0.1:
            spent = pick.choice([None] * 9 + [StopCause.BUDGET_TOKENS])  # nothing was asked, for the budget did not cover it
            return Unusable(reason="No answer.", usage=self.usage(), spent=spent, ratings=self.ratings(state), **common)
        return self.answer(kind, state, common)

    def usage(self) -> Usage:
        return Usage(tokens_in=self.random.randint(0, 20), tokens_out=3, money=0.01)

    def answer(self, kind: str, state: State, common: dict[str, object]) -> Outcome:
        pick = self.random
        match kind:
            case "analyse":
                nulls = ("zeros",) if pick.random() < 0.03 else ()
                return Analysed(analysis=AnalysisSummary(blob=REF, nulls=nulls), **common)
            case "plan":
                ids = [pick.choice(["", "a", "b", "plan"]) for _ in range(pick.randint(0, 5))]
                return Planned(
                    todos=tuple(todo(i, data={"x": 1}, rows=tuple(pick.choice(["", "x", "yz"]))) for i in ids),
                    usage=self.usage(),
                    **common,
                )
            case "code":
                parent = pick.choice([None, "c1", "c99", state.best])
                sha = str(pick.randint(0, 30))
                return Coded(
                    files={"model_new.py": REF}, sha256=sha, title="t", todo=None, parent=parent, usage=self.usage(), **common
                )
            case "build":
                ok = pick.random() < 0.8
                return Built(report=BuildReport(ok=ok, verdict=None if ok else Verdict.TIMED_OUT), **common)
            case "check":
                verdict = pick.choice([Verdict.VERIFIED] * 4 + [Verdict.INCORRECT, Verdict.CRASHED, Verdict.HACK])
                hack = HackClass.OUTPUT_CACHE if verdict is Verdict.HACK else None
                return Checked(report=check(verdict, hack=hack), **common)
            case "time" | "confirm":
                report = timing(pick.choice([0.5, 1.0, 1.04, 1.3, 1.6, 1.61, 1.62, 2.0, 3.0]), spread=pick.choice([0.01, 0.3]))
                if pick.random() < 0.1:
                    report = TimingReport(verdict=pick.choice([None, Verdict.INCORRECT]), sentence="Nothing measured.")
                return Timed(report=report, **common)
            case "profile":
                return Profiled(blob=REF, diagnosis=self.diagnosis(), **common)
        route = pick.choice(["retry", "optimise", "advance", "replan", "stop", "retry", "advance"])
        decision = Decision(candidate=state.current, route=route)
        return Decided(decision=decision, usage=self.usage(), ratings=self.ratings(state), **common)

    def ratings(self, state: State) -> tuple[Rating, ...]:
        """Of some candidates; some of them broken."""
        some = [c.id for c in state.candidates if self.random.random() < 0.8]
        return tuple(
            Rating(candidate=cid, judge="local judge 1", merit=self.random.choice([None, 2.0, 3.0, 4.0]), broken="It broke.")
            for cid in some
        )

    def diagnosis(self) -> Diagnosis | None:
        pick = self.random
        rows = tuple(DiagnosedRow(key=key, share=pick.choice([0.0, 0.3, 0.6])) for key in "xyz" if pick.random() < 0.7)
        found = Diagnosis(bound=pick.choice(["memory", "compute"]), reached=pick.choice([None, 0.2, 0.6, 0.97]), rows=rows)
        return pick.choice([None, found, found])

    def control(self, state: State, must_move: bool) -> Control:
        pick = self.random
        self.controls += 1
        kind = pick.choice(["resume", "approve_plan"]) if must_move and pick.random() < 0.7 else pick.choice(CONTROLS)
        if kind == "cancel" and pick.random() < 0.8:
            kind = "hint"
        ref = REF.model_dump()
        data = {
            "edit_plan": {"todos": [{"id": "a", "title": "A"}, {"title": "new"}, "nonsense", {"id": "b", "status": "dropped"}]},
            "hint": {"text": "Try."},
            "candidate": {"files": {"model_new.py": ref}, "parent": "c1"} if pick.random() < 0.9 else {},
            "branch": {"from": pick.choice(["c1", "c2", "none"])},
            "profile": {"candidate": pick.choice(["reference", "c1", "c2", "none"])},
        }.get(kind, {})
        control_id = str(self.controls if pick.random() < 0.9 else self.controls - 1)
        return Control(id=control_id, kind=kind, data=data)


def working(state: State) -> bool:
    return isinstance(next_step(state), Step) and state.stop_cause is None


def over_budget(state: State) -> bool:
    budget, usage = state.options.budget, state.usage
    return any(
        bound is not None and used >= bound
        for used, bound in (
            (usage.wall_s, budget.wall_s),
            (usage.tokens_in + usage.tokens_out, budget.tokens),
            (usage.money, budget.money),
            (usage.device_s, budget.device_s),
        )
    )


@MANY
@given(seeds)
def test_ten_thousand_random_runs_end_within_their_budget(seed: int) -> None:
    world = World(seed)
    state = start(world.state(), 0.0)
    for _ in range(2000):
        if state.status.ended:
            break
        outcome = world.outcome(state)
        after = apply(state, outcome)
        assert apply(after, outcome) == after or isinstance(outcome, Steered)
        check_invariants(state, after)
        state = after
    assert state.status.ended, "the run did not end"
    assert state.usage.attempts <= state.options.budget.attempts
    assert State.model_validate_json(state.model_dump_json()) == state
    if state.status is Status.FINISHED and state.best is not None:
        best = state.candidate(state.best)
        assert best.verified
        assert best.confirmed is not None
    elif state.status is Status.FINISHED and state.stop_cause is not StopCause.REFUSED:
        assert state.reference_timing is not None, "every baseline is timed where there is nothing better to offer"


def check_invariants(before: State, after: State) -> None:
    assert after.usage.attempts <= after.options.budget.attempts
    # the very outcome that spends a budget stops the run: no further step is begun
    if after.step != before.step or (before.status is Status.PAUSED and after.status is not Status.PAUSED):
        assert not (working(after) and over_budget(after))
    assert [c.id for c in after.candidates] == [f"c{i + 1}" for i in range(len(after.candidates))]
    assert sum(t.status == "doing" for t in (after.plan.todos if after.plan else ())) <= 1
    step = next_step(after)
    if isinstance(step, Step):
        assert step.index == after.step
        assert step.kind != "code" or step.todo is not None
        assert step.kind not in ("build", "check", "time", "decide") or step.candidate is not None
        assert step.kind != "confirm" or step.candidate is not None or after.best is after.reference_timing is None
    if before.best is not None and after.best != before.best and before.stop_cause is None and after.stop_cause is None:
        mine, theirs = measured(after.candidate(after.best or "")), measured(before.candidate(before.best))
        assert mine is not None
        assert theirs is not None
        tie = before.options.judge_ties and before.status in (Status.DECIDING, Status.PAUSED)
        assert mine.value > theirs.value or (tie and ratio(mine, theirs).high >= 1.0), "a best gives way to a better one only"
    if before.best is not None and after.best is None:
        assert best_left(after) is None or over_budget(after), "a best is dropped only when its confirmation failed"


@FEW
@given(seeds)
def test_the_same_control_or_outcome_twice_acts_once(seed: int) -> None:
    world = World(seed)
    state = start(world.state(), 0.0)
    for _ in range(world.random.randint(1, 40)):
        state = apply(state, world.outcome(state))
    outcome = world.outcome(state)
    once = apply(state, outcome)
    twice = apply(once, outcome)
    assert twice.model_copy(update={"now": 0, "usage": Usage()}) == once.model_copy(update={"now": 0, "usage": Usage()})


@FEW
@given(seeds, st.data())
def test_the_view_is_the_same_however_the_events_are_batched(seed: int, data: st.DataObject) -> None:
    world = World(seed)
    state = world.state()
    events = created(state, 0.0)
    began = start(state, 0.0)
    events += events_of(state, None, began, 0.0, len(events))
    state = began
    for _ in range(120):
        outcome = world.outcome(state)
        after = apply(state, outcome)
        new = events_of(state, outcome, after, world.at, len(events))
        assert new or after.model_copy(update={name: getattr(state, name) for name in QUIET}) == state, "a change is told"
        events += new
        state = after
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert all(fits(event.payload) for event in events)
    whole = fold_all(View(), events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=4)))
    view = View()
    for begin, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        view = View.model_validate_json(view.model_dump_json())  # a page that is loaded anew in between
        view = fold_all(view, events[max(0, begin - 3) : end])  # with some events delivered again
    assert view == whole
    assert fold(whole, events[-1]) == whole
    tells_the_state(whole, state)


def tells_the_state(view: View, state: State) -> None:
    assert view.status.status == state.status
    assert view.best == state.best
    assert list(view.candidates) == [c.id for c in state.candidates]
    assert [c.status for c in view.candidates.values()] == [c.status for c in state.candidates]
    assert view.usage is not None
    assert view.usage.usage == state.usage
    assert [(t.id, t.status, t.measured) for t in (view.plan.todos if view.plan else ())] == [
        (t.id, t.status, t.measured) for t in (state.plan.todos if state.plan else ())
    ]
    assert (view.result is not None) == state.status.ended
