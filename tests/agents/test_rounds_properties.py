"""Rounds under random outcomes in random order, each call at its worst: they end, and never spend more than there is."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.events import View, created, events_of, fold_all
from agents.events.shrink import fits
from agents.loop import apply, open_steps, start, under_way
from agents.loop.rounds import allotted
from agents.loop.rules import find, measured
from agents.state import (
    Broken,
    Budget,
    Built,
    Checked,
    Coded,
    Outcome,
    Search,
    State,
    Status,
    Steered,
    Step,
    Timed,
    Unusable,
    Usage,
)
from agents.steps import step_limit_s
from gpu_runner.contracts import BuildReport, Verdict
from tests.agents.loop_run import Run
from tests.agents.loop_world import check, new_state, options, timing
from tests.agents.test_loop_properties import FEW, QUIET, REF, World, seeds, tells_the_state

MANY = settings(max_examples=2_500, deadline=None, suppress_health_check=list(HealthCheck))


class Wide(World):
    """A shell that begins every step that is due at once, and outcomes that come back in any order."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.begun: dict[int, Step] = {}

    def state(self) -> State:
        pick = self.random
        budget = Budget(
            attempts=pick.choice([1, 3, 8, 20]),
            wall_s=pick.choice([None, None, 60.0, 900.0]),
            tokens=pick.choice([None, 900, 20_000]),
            money=pick.choice([None, 0.05, 1.0]),
            device_s=pick.choice([None, 90.0, 400.0]),
        )
        width = pick.randint(2, 5)
        search = Search(width=width, beam=pick.randint(1, 4), samples=pick.random() < 0.8)
        return new_state(
            options(
                budget=budget,
                search=search,
                patience=pick.randint(1, 4),
                replan_failures=pick.randint(1, 4),
                approve_plan=pick.random() < 0.1,
            )
        )

    def begin(self, state: State) -> None:
        for step in open_steps(state):
            assert self.begun.get(step.index, step) == step, "one index never names two steps"
            self.begun[step.index] = step

    def outcome(self, state: State) -> Outcome:
        pick = self.random
        self.begin(state)
        flying = [step for step in under_way(state) if step.index in self.begun]
        self.at += pick.choice([0.0, 0.5, 3.0])
        if not flying or pick.random() < 0.06:
            return Steered(step=state.step, at=self.at, control=self.control(state, must_move=not flying))
        step = pick.choice(flying)
        worst = pick.random() < 0.3
        common = {"step": step.index, "at": self.at, "seconds": self.seconds(step, state, worst)}
        if pick.random() < 0.05:
            return Broken(reason="The machine failed.", **common)
        if not step.by_hands and pick.random() < 0.15:
            return Unusable(reason=f"No answer {pick.randint(0, 3)}.", usage=self.spend(step, state, worst), **common)
        outcome = self.answer(step.kind, state, common)
        fields = {"parent": step.candidate} if isinstance(outcome, Coded) and step.lane else {}
        return outcome.model_copy(update=fields | ({"usage": self.spend(step, state, worst)} if not step.by_hands else {}))

    def seconds(self, step: Step, state: State, worst: bool) -> float:
        if not step.by_hands:
            return 1.0
        if worst and step.lane is not None:
            return step_limit_s(step, state)
        left = 1e9 if state.options.budget.device_s is None else state.options.budget.device_s - state.usage.device_s
        seconds = self.random.choice([0.0, 1.0, 8.0])
        return min(seconds, step_limit_s(step, state)) if step.lane is not None else max(0.0, min(seconds, left))

    def spend(self, step: Step, state: State, worst: bool) -> Usage:
        """Up to everything that the engineer of the step may spend, which is what is left of the budget that it sees."""
        seen, used = allotted(state, step).options.budget, state.usage
        tokens = 40 if seen.tokens is None else max(0, seen.tokens - used.tokens_in - used.tokens_out)
        money = 0.01 if seen.money is None else max(0.0, seen.money - used.money)
        return Usage(tokens_in=tokens if worst else min(tokens, 30), money=money if worst else min(money, 0.004))


def within(state: State) -> None:
    budget, usage = state.options.budget, state.usage
    assert usage.attempts <= budget.attempts
    assert budget.tokens is None or usage.tokens_in + usage.tokens_out <= budget.tokens
    assert budget.money is None or usage.money <= budget.money + 1e-9
    assert budget.device_s is None or state.stop_cause is not None or usage.device_s <= budget.device_s + 1e-6


@MANY
@given(seeds)
def test_wide_runs_end_and_never_spend_more_than_there_is(seed: int) -> None:
    world = Wide(seed)
    state = start(world.state(), 0.0)
    for _ in range(3000):
        if state.status.ended:
            break
        outcome = world.outcome(state)
        after = apply(state, outcome)
        assert apply(after, outcome) == after or isinstance(outcome, Steered)
        within(after)
        if after.round is not None:
            assert len(after.round.lanes) <= after.options.search.width
            assert after.status in (Status.CODING, Status.BUILDING, Status.CHECKING, Status.TIMING, Status.PAUSED)
        if state.best is not None and after.best != state.best and state.stop_cause is None and after.stop_cause is None:
            mine, theirs = measured(after.candidate(after.best or "")), measured(state.candidate(state.best))
            assert mine is not None
            assert theirs is not None
            assert mine.value > theirs.value, "a best gives way to a better one only"
        assert sum(t.status == "doing" for t in (after.plan.todos if after.plan else ())) <= 1
        state = after
    assert state.status.ended, "the run did not end"
    assert State.model_validate_json(state.model_dump_json()) == state
    assert state.round is None
    if state.status is Status.FINISHED:
        assert all(c.status == "done" for c in state.candidates)
    if state.status is Status.FINISHED and state.best is not None:
        assert state.candidate(state.best).confirmed is not None


@FEW
@given(seeds)
def test_the_events_of_wide_runs_fold_to_their_state(seed: int) -> None:
    world = Wide(seed)
    state = world.state()
    events = created(state, 0.0)
    began = start(state, 0.0)
    events += events_of(state, None, began, 0.0, len(events))
    state = began
    for _ in range(150):
        outcome = world.outcome(state)
        after = apply(state, outcome)
        new = events_of(state, outcome, after, world.at, len(events))
        assert new or after.model_copy(update={name: getattr(state, name) for name in QUIET}) == state, "a change is told"
        events += new
        state = after
    assert all(fits(event.payload) for event in events)
    view = fold_all(View(), events)
    tells_the_state(view, state)
    working = {step.lane for step in open_steps(state) if step.lane is not None}
    assert {line.number for line in view.status.lanes} == working
    assert [c.round for c in view.candidates.values()] == [c.round for c in state.candidates]


def scripted(state: State, speeds: list[float | None], pick: random.Random) -> State:
    """A round whose lanes each come to the same end in whatever order their steps end; None: the program does not build."""
    at = 100.0
    while state.round is not None:
        step = pick.choice(under_way(state))
        speed, at = speeds[(step.lane or 1) - 1], at + 1.0
        common = {"step": step.index, "at": at, "seconds": 1.0}
        outcome: Outcome
        if step.kind == "code":
            outcome = Coded(
                files={"model_new.py": REF}, sha256=f"lane {step.lane}", title="t", todo=step.todo, parent=step.candidate,
                usage=Usage(tokens_in=7), **common,
            )  # fmt: skip
        elif step.kind == "build":
            outcome = Built(report=BuildReport(ok=speed is not None), **common)
        elif step.kind == "check":
            outcome = Checked(report=check(Verdict.VERIFIED), **common)
        else:
            outcome = Timed(report=timing(speed or 1.0, spread=0.001), **common)
        state = apply(state, outcome)
    return state


@FEW
@given(seeds, st.lists(st.sampled_from([None, 0.8, 1.0, 1.2, 1.5, 1.51, 2.0]), min_size=4, max_size=4))
def test_what_a_round_comes_to_does_not_depend_on_the_order_of_its_outcomes(seed: int, speeds: list[float | None]) -> None:
    def ended(order: random.Random) -> State:
        run = Run(new_state(options(search=Search(width=4, beam=2)))).planned("a", "b")
        return scripted(run.state, speeds, order)

    one, other = ended(random.Random(seed)), ended(random.Random(seed + 1))

    assert (one.usage.tokens_in, one.usage.attempts) == (other.usage.tokens_in, other.usage.attempts) == (28, 4)
    for name in ("failures_in_row", "gainless_in_row", "tries", "status", "rounds"):
        assert getattr(one, name) == getattr(other, name)
    found = [{(c.sha256, c.verdict, c.parent, c.round, c.speedup) for c in state.candidates} for state in (one, other)]
    assert found[0] == found[1]
    bests = [measured(best).value if (best := find(state, state.best)) else 1.0 for state in (one, other)]
    assert bests[0] == pytest.approx(bests[1], rel=0.02), "within what a timing can tell apart"
    assert max(speed or 0.0 for speed in speeds) <= max(bests[0] * 1.021, 1.05)
