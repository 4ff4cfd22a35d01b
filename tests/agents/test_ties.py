"""A judge breaks ties of speed, and nothing but ties: the pure rule, the reducer, and the step that asks for ratings."""

from __future__ import annotations

import random

import pytest

from agents.blobs import MemoryBlobs
from agents.engineers.scripted import Scripted
from agents.judges import Judgement
from agents.loop.ties import settled_by_judge, tied
from agents.rubric import DIMENSIONS
from agents.state import Decided, Decision, Rating, State
from agents.steps import think
from gpu_runner.contracts import Interval, Verdict
from tests.agents.loop_run import Run
from tests.agents.loop_world import analysis, new_state, options, scripted_name

JUDGE = "local judge 3"


def rated(judge: str = JUDGE, **merits: float) -> tuple[Rating, ...]:
    return tuple(Rating(candidate=cid, judge=judge, merit=merit) for cid, merit in merits.items())


def run_of(*speedups: float, **more: object) -> Run:
    """A run whose candidates were timed at these speedups, each an item of its own; the last one is about to be decided on."""
    run = Run(new_state(options(judge_ties=True, patience=9, **more))).planned(*"abcdefgh"[: len(speedups) + 1])
    for speedup in speedups[:-1]:
        run.attempt(speedup)
    return run.coded().built().checked().timed(speedups[-1]).profiled_if_due()


def decide(run: Run, *ratings: Rating) -> Decision:
    run.take(Decided, decision=Decision(candidate=run.state.current, route="advance"), ratings=ratings)
    return run.state.decisions[-1]


def test_the_higher_judged_of_two_that_are_equally_fast_becomes_the_best() -> None:
    run = run_of(1.5, 1.5)
    assert run.state.best == "c1"
    decision = decide(run, *rated(c1=2.5, c2=3.5))
    assert run.state.best == "c2"
    words = "c1 and c2 are not distinguishable in speed. The local judge 3 rates c2 highest, so it is the best."
    assert decision.tie == words


@pytest.mark.parametrize("merits", [{"c1": 3.5, "c2": 2.5}, {"c1": 3.0, "c2": 3.0}])
def test_the_best_stays_where_it_is_rated_no_lower(merits: dict[str, float]) -> None:
    run = run_of(1.5, 1.5)
    assert "c1 highest, so it stays the best" in decide(run, *rated(**merits)).tie
    assert run.state.best == "c1"


def test_no_rating_puts_a_slower_or_a_wrong_candidate_first() -> None:
    slower = run_of(1.5, 1.3)
    assert tied(slower.state) == ()
    assert decide(slower, *rated(c1=1.0, c2=5.0)).tie == ""
    assert slower.state.best == "c1"
    wrong = Run(new_state(options(judge_ties=True))).planned("a", "b").attempt(1.5).coded().built().checked(Verdict.INCORRECT)
    assert decide(wrong, *rated(c1=1.0, c2=5.0)).tie == ""
    assert wrong.state.best == "c1"


def test_what_is_tied_with_the_best_and_measurably_behind_another_is_not_put_first() -> None:
    """c1 and c2 are tied, c2 and c3 too; c3 is behind c1."""
    run = run_of(1.56, 1.52, 1.48)
    run.state = run.state.model_copy(update={"best": "c2"})
    assert timed_ratio(run.state, "c1", "c3").low > 1.0
    assert tied(run.state) == ("c2", "c1")
    assert decide(run, *rated(c1=1.0, c2=2.0, c3=5.0)).tie == ""
    assert run.state.best == "c2"


def timed_ratio(state: State, one: str, other: str) -> Interval:
    from agents.loop.rules import measured, ratio

    over, under = measured(state.candidate(one)), measured(state.candidate(other))
    assert over
    assert under
    return ratio(over, under)


def test_ratings_of_another_version_or_none_at_all_leave_the_best_and_say_why() -> None:
    run = run_of(1.5, 1.5)
    mixed = (*rated(c1=1.0), *rated("local judge 4", c2=5.0))
    assert "no judge put one first" in decide(run, *mixed).tie
    run = run_of(1.5, 1.5)
    assert "its weights are gone" in decide(run, *rated(c1=1.0), Rating(candidate="c2", broken="its weights are gone")).tie
    assert run.state.best == "c1"


def test_a_tie_is_nothing_to_a_run_that_lets_no_judge_break_it() -> None:
    run = run_of(1.5, 1.5)
    run.state = run.state.model_copy(update={"options": run.state.options.model_copy(update={"judge_ties": False})})
    assert decide(run, *rated(c1=1.0, c2=5.0)).tie == ""
    assert run.state.best == "c1"


def test_a_run_that_has_reached_its_target_does_not_lose_it_to_a_tie() -> None:
    run = run_of(1.51, 1.5)
    run.state = run.state.model_copy(update={"options": run.state.options.model_copy(update={"target_speedup": 1.505})})
    decide(run, *rated(c1=1.0, c2=5.0))
    assert run.state.best == "c1"


def test_an_engineer_cannot_write_the_words_on_a_tie() -> None:
    run = run_of(1.5, 1.3)
    _, decision = settled_by_judge(run.state, Decision(candidate="c2", route="advance", tie="c2 is the best"), ())
    assert decision.tie == ""


@pytest.mark.parametrize("seed", range(40))
def test_whatever_the_ratings_the_best_is_right_and_nothing_is_measurably_faster(seed: int) -> None:
    pick = random.Random(seed)
    run = run_of(*(pick.choice((1.2, 1.48, 1.5, 1.52, 1.55, 1.6)) for _ in range(5)))
    before = run.state.best
    decide(run, *rated(**{f"c{n}": pick.uniform(1, 5) for n in range(1, 6)}))
    if run.state.best != before:
        assert run.state.best
        for other in run.state.candidates:
            assert other.id == run.state.best or timed_ratio(run.state, other.id, run.state.best).low <= 1.0


def asked_of(state: State, rate: object) -> Decided:
    engineer = Scripted(decisions=[Decision(candidate=state.current, route="advance")])
    name = scripted_name(engineer)
    blobs = MemoryBlobs()
    source = blobs.put(b"x = 1\n")
    told = blobs.put(analysis().model_dump_json().encode())
    assert state.analysis
    known = {"source": source, "analysis": state.analysis.model_copy(update={"blob": told}), "reference_profile": None}
    chosen = state.options.model_copy(update={"verifier": name})
    run = Run(state.model_copy(update=known | {"options": chosen}))
    outcome = think(run.due(), run.state, blobs, rate=rate)  # type: ignore[arg-type]
    assert isinstance(outcome, Decided)
    return outcome


def test_ratings_are_asked_for_where_there_is_a_tie_and_a_judge_that_fails_says_nothing() -> None:
    asked: list[tuple[str, ...]] = []

    def rate(ids: tuple[str, ...]) -> tuple[Rating, ...]:
        asked.append(ids)
        return rated(c1=1.0, c2=2.0)

    assert asked_of(run_of(1.5, 1.5).state, rate).ratings == rated(c1=1.0, c2=2.0)
    assert asked_of(run_of(1.5, 1.3).state, rate).ratings == ()
    assert asked == [("c1", "c2")]

    def fails(ids: tuple[str, ...]) -> tuple[Rating, ...]:
        raise OSError("the disk is gone")

    [rating] = asked_of(run_of(1.5, 1.5).state, fails).ratings
    assert rating.merit is None
    assert "the disk is gone" in rating.broken


def test_doubt_is_none_where_one_level_is_sure_and_all_where_every_level_is_as_likely() -> None:
    sure, equal = (0.0, 0.0, 1.0, 0.0, 0.0), (0.2, 0.2, 0.2, 0.2, 0.2)
    assert Judgement(levels=dict.fromkeys(DIMENSIONS, sure), hack=0.0).doubt == pytest.approx(0.0)
    assert Judgement(levels=dict.fromkeys(DIMENSIONS, equal), hack=0.0).doubt == pytest.approx(1.0)
    half = Judgement(levels=dict(zip(DIMENSIONS, (sure, equal, sure, equal), strict=True)), hack=0.0)
    assert half.doubt == pytest.approx(0.5)
    assert half.merit == pytest.approx(3.0)
