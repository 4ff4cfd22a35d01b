"""The table of routes: what the Verifier proposes, what was measured, and where the loop goes. Every row of it, and every rule
that goes before it, with one candidate at a time and with several."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from agents.diagnosis import Diagnosis
from agents.loop.rules import MAX_TRIES
from agents.state import Budget, Decided, Decision, Route, Status, StopCause, Unusable
from tests.agents.loop_run import Run
from tests.agents.loop_world import new_state, options
from tests.agents.test_rounds import Wide

FOUND = ("failed", "no gain", "gain")  # what was measured of the candidate
ROUTES: tuple[Route, ...] = get_args(Route)

# (route, what was measured, whether tries are left): status of the item after it, and the step that is due then
TABLE: dict[tuple[Route, str, bool], tuple[str, str]] = {
    ("retry", "failed", True): ("doing", "code again"),
    ("retry", "failed", False): ("failed", "code next"),
    ("retry", "no gain", True): ("no-gain", "code next"),  # nothing to repair
    ("retry", "no gain", False): ("no-gain", "code next"),
    ("retry", "gain", True): ("done", "code next"),
    ("optimise", "failed", True): ("doing", "code again"),
    ("optimise", "failed", False): ("failed", "code next"),
    ("optimise", "no gain", True): ("doing", "code again"),
    ("optimise", "no gain", False): ("no-gain", "code next"),
    ("optimise", "gain", True): ("doing", "code again"),  # a gain gives the item its tries back
    ("advance", "failed", True): ("failed", "code next"),
    ("advance", "failed", False): ("failed", "code next"),
    ("advance", "no gain", True): ("no-gain", "code next"),
    ("advance", "no gain", False): ("no-gain", "code next"),
    ("advance", "gain", True): ("done", "code next"),
    ("replan", "failed", True): ("failed", "plan"),
    ("replan", "failed", False): ("failed", "plan"),
    ("replan", "no gain", True): ("no-gain", "plan"),
    ("replan", "no gain", False): ("no-gain", "plan"),
    ("replan", "gain", True): ("done", "plan"),
    ("stop", "failed", True): ("failed", "baselines"),
    ("stop", "failed", False): ("failed", "baselines"),
    ("stop", "no gain", True): ("no-gain", "baselines"),
    ("stop", "no gain", False): ("no-gain", "baselines"),
    ("stop", "gain", True): ("done", "confirm"),
}
BOTH = pytest.mark.parametrize("width", [1, 3])
EACH = pytest.mark.parametrize("route", ROUTES)


def test_the_table_has_a_row_for_all_that_can_be() -> None:
    rows = set(product(ROUTES, FOUND, (True, False)))
    assert set(TABLE) == rows - {(route, "gain", False) for route in ROUTES}


def begun(width: int, *todos: str, **more: object) -> Run:
    more = {"patience": 99, "replan_failures": 99} | more
    run = Wide(width, **more) if width > 1 else Run(new_state(options(**more)))
    return run.planned(*(todos or ("a", "b")))


def attempt(run: Run, found: str) -> Run:
    """One attempt, or one round, up to its decision. In a round the others fail."""
    speedup = {"no gain": 1.0, "gain": 1.5 + 0.5 * len(run.state.candidates)}.get(found, 0.0)
    if isinstance(run, Wide):
        assert run.state.round is not None
        for lane in range(1, len(run.state.round.lanes) + 1):
            if lane == 2 and speedup:
                run.right(lane, speedup)
            else:
                run.fail(lane)
    elif speedup:
        run.coded().built().checked().timed(speedup)
    else:
        run.coded().built(ok=False)
    return run.profiled_if_due()


def go(run: Run, route: Route) -> Run:
    assert run.kind() == "decide"
    return run.take(Decided, decision=Decision(candidate=run.state.current, route=route))


def due(run: Run) -> str:
    if run.state.status.ended:
        return "ended"
    if run.kind() == "code":
        assert run.state.plan is not None
        return "code again" if run.due().todo == "a" else "code next"
    if run.state.stop_cause:
        return "confirm" if run.due().candidate else "baselines"
    return run.kind()


@BOTH
@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]}, {row[1]}, {'tries left' if row[2] else 'none left'}")
def test_every_row_of_the_table(row: tuple[Route, str, bool], width: int) -> None:
    route, found, left = row
    run = begun(width)
    for _ in range(0 if left else MAX_TRIES - 1):
        go(attempt(run, "failed"), "retry")
    go(attempt(run, found), route)
    assert (run.state.todo("a").status, due(run)) == TABLE[row]


@BOTH
@EACH
def test_the_wished_speedup_goes_before_every_route(route: Route, width: int) -> None:
    run = go(attempt(begun(width, target_speedup=1.2), "gain"), route)
    assert (run.state.stop_cause, due(run)) == (StopCause.TARGET_REACHED, "confirm")


@BOTH
@EACH
def test_spent_attempts_go_before_every_route_but_stop(route: Route, width: int) -> None:
    run = go(attempt(begun(width, budget=Budget(attempts=width, wall_s=None)), "failed"), route)
    assert run.state.stop_cause is (StopCause.NO_GAIN if route == "stop" else StopCause.BUDGET_ATTEMPTS)


@BOTH
@EACH
def test_spent_patience_goes_before_every_route(route: Route, width: int) -> None:
    assert go(attempt(begun(width, patience=1), "no gain"), route).state.stop_cause is StopCause.NO_GAIN


@BOTH
@pytest.mark.parametrize("route", [route for route in ROUTES if route != "stop"])
def test_failures_in_a_row_bring_a_new_plan_whatever_the_route(route: Route, width: int) -> None:
    run = go(attempt(begun(width, replan_failures=1), "failed"), route)
    assert (due(run), run.state.replans, run.state.failures_in_row) == ("plan", 1, 0)


@BOTH
@pytest.mark.parametrize("route", [route for route in ROUTES if route != "stop"])
def test_at_the_roofline_nothing_is_tried_whatever_the_route(route: Route, width: int) -> None:
    run = begun(width)
    found = Diagnosis(klass="memory-bound", bound="memory", reached=0.99)
    run.state = run.state.model_copy(update={"reference_diagnosis": found})
    assert found.at_roofline
    assert go(attempt(run, "failed"), route).state.stop_cause is StopCause.AT_ROOFLINE


@BOTH
@pytest.mark.parametrize("route", [route for route in ROUTES if route not in ("stop", "retry", "optimise")])
def test_the_last_item_ends_the_run_unless_a_new_plan_is_asked_for(route: Route, width: int) -> None:
    run = go(attempt(begun(width, "a"), "failed"), route)
    assert due(run) == ("plan" if route == "replan" else "baselines")
    assert route == "replan" or run.state.stop_cause is StopCause.TODOS_DONE


@BOTH
@EACH
def test_what_a_person_asked_for_goes_before_every_route(route: Route, width: int) -> None:
    run = attempt(begun(width), "no gain")
    ref = {"sha256": "b" * 64, "size": 1}
    run.steered("candidate", files={"model_new.py": ref}, sha256="mine", title="Mine")
    run.steered("profile", candidate="reference")
    go(run, route)
    assert (run.kind(), run.state.candidate(run.state.current or "").author) == ("build", "person")
    run.built(ok=False)
    run.take(Decided, decision=Decision(candidate=run.state.current, route="advance"))
    assert (run.kind(), run.state.current) == ("profile", None)


@BOTH
@pytest.mark.parametrize(("found", "then"), [("failed", "code again"), ("gain", "code next")])
def test_without_a_usable_decision_the_rules_take_the_obvious_route(found: str, then: str, width: int) -> None:
    run = attempt(begun(width), found).take(Unusable, reason="Prose.")
    assert due(run) == then
    assert "own rules decide" in run.state.decisions[-1].sentence


@BOTH
def test_a_new_plan_waits_for_its_approval_where_that_was_wished(width: int) -> None:
    run = begun(width, "a", approve_plan=True)
    assert run.state.status is Status.AWAITING_APPROVAL
    run.steered("approve_plan")
    assert run.kind() == "code"
    assert (run.state.round is not None) == (width > 1)
