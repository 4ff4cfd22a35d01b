"""What a noisy machine does to a run: vague timings are made again, claims that fall take their words back, waiting is free."""

from __future__ import annotations

from agents.loop.rules import MAX_RETIMES
from agents.state import Analysed, AnalysisSummary, Budget, Status
from tests.agents.loop_run import REF, Run
from tests.agents.loop_world import new_state, options


def test_a_gain_that_noise_hides_is_timed_again_and_counts_when_it_shows() -> None:
    run = Run().planned("a").coded().built().checked().timed(1.8, spread=0.6)
    assert (run.kind(), run.due().candidate, run.state.best) == ("time", "c1", None)
    assert "Timed again" in run.state.candidate("c1").note
    run.timed(1.8)
    assert run.state.best == "c1"


def test_a_gain_that_stays_hidden_is_given_up_after_two_more_timings() -> None:
    run = Run().planned("a").coded().built().checked()
    for _ in range(MAX_RETIMES):
        run.timed(1.8, spread=0.6)
    assert run.kind() == "time"
    run.timed(1.8, spread=0.6).profiled_if_due().decided().baselines_timed()
    assert (run.state.status, run.state.best, run.statuses()) == (Status.FINISHED, None, ["no-gain"])


def test_what_is_plainly_no_gain_is_not_timed_again() -> None:
    run = Run().planned("a").coded().built().checked().timed(0.9, spread=0.6)
    assert run.kind() != "time"


def test_a_vague_confirmation_is_made_once_more() -> None:
    run = Run().planned("a").attempt(1.5).checked().timed(1.5, spread=0.6)
    assert (run.kind(), run.state.status) == ("confirm", Status.TIMING)
    assert run.timed(1.45).state.best == "c1"
    assert run.state.candidate("c1").note == "Confirmed by the full protocol: 1.45× over eager (1.42–1.48)."
    again = Run().planned("a").attempt(1.5).checked().timed(1.5, spread=0.6).timed(1.5, spread=0.6)
    assert (again.state.status, again.state.best) == (Status.FINISHED, None)


def test_an_item_whose_claim_falls_in_the_end_does_not_go_on_claiming_it() -> None:
    run = Run().planned("a").attempt(1.5)
    assert run.statuses() == ["done"]
    run.confirmed(1.01)
    [todo] = run.state.plan.todos if run.state.plan else ()
    assert (todo.status, todo.measured) == ("no-gain", None)
    assert "did not confirm" in todo.note


def test_waiting_for_a_runner_spends_no_time_of_the_run() -> None:
    run = Run(new_state(options(budget=Budget(wall_s=60.0))))
    run.at += 500.0
    run.take(Analysed, seconds=3.0, analysis=AnalysisSummary(blob=REF, refusal=None, eager_ms=10.0, nulls=(), labels=()))
    assert run.state.usage.wall_s == 3.0
    assert not run.state.status.ended


def test_an_item_that_brought_the_best_is_done_however_vague_its_gain_over_its_parent() -> None:
    run = Run().planned("a").coded().built().checked().timed(0.9, spread=0.8).profiled_if_due().decided("optimise")
    run.attempt(1.5)
    assert (run.state.candidate("c2").parent, run.state.best) == ("c1", "c2")
    assert run.statuses() == ["done"]


def test_no_note_of_a_quick_timing_says_who_is_the_best_in_the_end() -> None:
    run = Run().planned("a", "b", "c").attempt(1.5).attempt(1.8).attempt(1.2)
    for candidate in run.state.candidates:
        assert "quick timing" in candidate.note
        assert "best" not in candidate.note
