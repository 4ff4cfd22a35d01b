"""The way of a run through the loop, step by step, with outcomes as the hands and the engineers would give them."""

from __future__ import annotations

import pytest

from agents.loop import apply, next_step
from agents.result import line_of
from agents.state import (
    Broken,
    Budget,
    Built,
    Checked,
    Coded,
    Planned,
    Profiled,
    State,
    Status,
    Stop,
    StopCause,
    Timed,
    Unusable,
    Usage,
)
from agents.steps import hand_made, task_for
from gpu_runner.contracts import BuildReport, Label, Refusal, Speed, TimeTask, TimingReport, Verdict
from tests.agents.loop_run import BLOBS, REF, Run
from tests.agents.loop_world import check, new_state, options, program, timing, todo

SPENT = Usage(tokens_in=9, tokens_out=2, money=2.0)


def test_a_run_goes_from_analysis_to_a_confirmed_best() -> None:
    run = Run()
    seen = []
    for answer in (
        lambda: run.analysed(),
        lambda: run.take(Profiled, blob=REF),
        lambda: run.take(Planned, todos=(todo("a"),)),
        lambda: run.coded(),
        lambda: run.built(),
        lambda: run.checked(),
        lambda: run.timed(1.5),
        lambda: run.take(Profiled, blob=REF),
        lambda: run.decided(),
        lambda: run.checked(),
        lambda: run.timed(1.4),
    ):
        seen.append(run.kind())
        answer()
    assert seen == ["analyse", "profile", "plan", "code", "build", "check", "time", "profile", "decide", "check", "confirm"]
    assert run.state.status is Status.FINISHED
    assert run.state.stop_cause is StopCause.TODOS_DONE
    assert run.state.best == "c1"
    assert run.state.candidate("c1").speedup == pytest.approx(1.4)
    assert run.statuses() == ["done"]
    assert run.state.todo("a").measured == pytest.approx(1.5)


def test_a_refused_program_ends_the_run_with_the_reason() -> None:
    run = Run().analysed(refusal=Refusal(code="crash", sentence="It crashes in line 3.", way_out="Fix it."))
    assert next_step(run.state) == Stop(status=Status.FINISHED, cause=StopCause.REFUSED)
    assert run.state.error == "It crashes in line 3. Fix it."


@pytest.mark.parametrize("more", [{"nulls": ("zeros",)}, {"labels": (Label.DEGENERATE,)}, {"labels": (Label.STOCHASTIC,)}])
def test_degenerate_and_stochastic_programs_are_refused(more: dict[str, object]) -> None:
    assert Run().analysed(**more).state.stop_cause is StopCause.REFUSED


def test_a_verified_candidate_within_the_noise_is_not_kept_and_says_why() -> None:
    run = Run().planned("a").attempt(1.02)
    assert run.state.best is None
    assert run.statuses() == ["no-gain"]
    assert "noise" in run.state.candidate("c1").note
    assert run.baselines_timed().state.status is Status.FINISHED


def test_a_run_without_a_result_times_every_baseline_once() -> None:
    run = Run(new_state(blobs=BLOBS)).planned("a").failed_attempt("advance")
    assert (run.kind(), run.due().candidate, run.state.stop_cause) == ("confirm", None, StopCause.TODOS_DONE)
    task = task_for(run.due(), run.state, BLOBS)
    assert isinstance(task, TimeTask)
    assert (task.candidate, task.protocol) == (None, run.state.options.protocol)
    run.baselines_timed()
    assert run.state.status is Status.FINISHED
    line = line_of(run.state)
    assert (line["verdict"], line["compile_ms"], line["eager_ms"]) == ("no-gain", {"default": 8.0}, 10.0)
    assert (line["offered"], line["offered_vs_eager"]) == ("default", pytest.approx(1.25))


def test_a_confirmation_that_did_not_hold_has_timed_the_baselines() -> None:
    run = Run().planned("a").attempt(1.5).confirmed(1.01)
    assert run.state.status is Status.FINISHED
    assert run.state.reference_timing is not None


def test_a_confirmation_that_broke_off_leaves_the_baselines_to_be_timed() -> None:
    run = Run(new_state(options(budget=Budget(attempts=1)))).planned("a").attempt(1.5).checked()
    run.take(Timed, report=TimingReport(verdict=Verdict.INCORRECT, sentence="Call 7 differed."))
    assert run.baselines_timed().state.status is Status.FINISHED


def test_baselines_that_cannot_be_timed_end_the_run_all_the_same() -> None:
    run = Run().planned("a").failed_attempt("advance")
    for _ in range(3):
        run.take(Broken, reason="No device.")
    assert run.state.status is Status.FINISHED
    assert run.state.reference_timing is not None
    assert "No device." in run.state.reference_timing.sentence
    assert line_of(run.state)["verdict"] == "no-gain"
    crashed = Run().planned("a").failed_attempt("advance").take(Timed, report=TimingReport(sentence="It crashed."))
    assert crashed.state.status is Status.FINISHED


def test_a_second_gain_is_measured_over_the_program_it_stood_on() -> None:
    run = Run().planned("a", "b").attempt(1.5).attempt(1.8)
    assert run.state.candidate("c2").parent == "c1"
    assert run.state.todo("b").measured == pytest.approx(1.2)
    assert run.state.best == "c2"


def test_the_parent_of_a_new_candidate_is_the_best_and_not_the_last() -> None:
    run = Run().planned("a", "b", "c").attempt(1.5).attempt(1.2)
    assert run.state.best == "c1"
    assert run.attempt(1.9).state.candidate("c3").parent == "c1"


def test_a_failed_candidate_is_repaired_twice_and_then_given_up() -> None:
    run = Run(new_state(options(replan_failures=9))).planned("a", "b")
    run.failed_attempt("retry").failed_attempt("retry").failed_attempt("retry")
    assert run.statuses() == ["failed", "doing"]
    assert [c.parent for c in run.state.candidates] == [None, "c1", "c2"]
    assert run.state.todo("a").note == "k.cpp:1: no"


def test_a_repair_stands_on_the_program_under_the_failed_one() -> None:
    run = Run().planned("a", "b").attempt(1.5).failed_attempt("retry").attempt(1.8)
    assert run.state.candidate("c3").parent == "c2"
    assert run.state.todo("b").measured == pytest.approx(1.2)


def test_failures_in_a_row_bring_a_new_plan_that_keeps_what_is_settled() -> None:
    run = Run().planned("a", "b", "c", "d").failed_attempt().failed_attempt().failed_attempt()
    assert run.kind() == "plan"
    assert run.state.replans == 1
    run.take(Planned, todos=(todo("a", title="Again"),))
    assert [(t.id, t.status) for t in run.state.plan.todos] == [
        ("a", "failed"), ("b", "failed"), ("c", "failed"), ("d", "dropped"), ("t5", "doing"),
    ]  # fmt: skip


def test_verified_attempts_without_a_gain_end_the_run_when_patience_is_spent() -> None:
    run = Run(new_state(options(patience=2))).planned("a", "b", "c").attempt(1.0).attempt(1.0)
    assert run.state.stop_cause is StopCause.NO_GAIN
    assert run.state.usage.attempts == 2


def test_the_wished_speedup_ends_the_loop_and_is_confirmed() -> None:
    run = Run(new_state(options(target_speedup=1.4))).planned("a", "b").attempt(1.5)
    assert (run.kind(), run.state.stop_cause) == ("check", StopCause.TARGET_REACHED)


def test_the_budget_of_attempts_counts_unusable_answers() -> None:
    run = Run(new_state(options(budget=Budget(attempts=2, wall_s=None)))).planned("a", "b", "c")
    run.take(Unusable, reason="No code in it.").failed_attempt()
    assert run.state.stop_cause is StopCause.BUDGET_ATTEMPTS
    assert run.state.usage.attempts == 2


def test_the_same_program_twice_is_an_unusable_answer() -> None:
    run = Run().planned("a", "b").coded("x").built(ok=False).decided("retry").coded("x")
    assert len(run.state.candidates) == 1
    assert "same program as c1" in run.state.todo("a").note
    assert run.state.usage.attempts == 2


@pytest.mark.parametrize(
    ("budget", "cause"),
    [
        (Budget(wall_s=5.0), StopCause.BUDGET_WALL),
        (Budget(wall_s=None, device_s=4.0), StopCause.BUDGET_DEVICE),
        (Budget(wall_s=None, tokens=11), StopCause.BUDGET_TOKENS),
        (Budget(wall_s=None, money=1.0), StopCause.BUDGET_MONEY),
    ],
)
def test_a_spent_budget_ends_the_run_in_the_middle_of_a_candidate(budget: Budget, cause: StopCause) -> None:
    run = Run(new_state(options(budget=budget))).planned("a")
    run.take(Coded, files={"model_new.py": REF}, sha256="x", title="t", todo="a", parent=None, usage=SPENT).built().checked()
    run.baselines_timed()
    assert (run.state.status, run.state.stop_cause) == (Status.FINISHED, cause)
    assert run.state.best is None
    assert run.state.candidate("c1").status == "done"


def test_time_is_kept_back_for_the_confirmation_of_a_best() -> None:
    run = Run(new_state(options(budget=Budget(wall_s=40.0)))).planned("a", "b").attempt(1.5)
    run.coded().built().take(Checked, seconds=25.0, report=check())
    assert run.state.usage.wall_s < 40.0
    assert (run.kind(), run.due().candidate, run.state.stop_cause) == ("check", "c1", StopCause.BUDGET_WALL)
    assert run.confirmed(1.5).state.best == "c1"


def test_a_best_that_the_full_protocol_does_not_confirm_gives_way_to_the_next() -> None:
    run = Run().planned("a", "b").attempt(1.5).attempt(1.8)
    assert run.due().candidate == "c2"
    run.confirmed(1.01)
    assert run.due().candidate == "c1"
    run.confirmed(1.4)
    assert (run.state.status, run.state.best) == (Status.FINISHED, "c1")
    assert "did not confirm" in run.state.candidate("c2").note


def test_a_figure_that_the_hands_do_not_claim_is_no_gain_however_large() -> None:
    run = Run(new_state(options(budget=Budget(attempts=1)))).planned("a").coded().built().checked()
    doubt = timing(3.0).model_copy(update={"speed": Speed.NOT_CLAIMED, "sentence": "No speed is claimed (clocks disagree)."})
    run.take(Timed, report=doubt)
    assert run.state.best is None


def test_a_confirmation_that_claims_nothing_drops_the_best_with_the_reason() -> None:
    run = Run(new_state(options(budget=Budget(attempts=1)))).planned("a").attempt(1.5)
    doubt = timing(1.5).model_copy(update={"speed": Speed.NOT_CLAIMED, "sentence": "A second process disagreed."})
    run.checked().take(Timed, report=doubt)
    assert (run.state.status, run.state.best) == (Status.FINISHED, None)
    assert "A second process disagreed." in run.state.candidate("c1").note


def test_a_best_that_the_full_check_rejects_is_repaired_while_attempts_are_left() -> None:
    run = Run().planned("a", "b").attempt(1.5).attempt(1.2).confirmed(1.5, Verdict.INPUT_SPECIALISED)
    assert (run.kind(), run.state.best, run.state.stop_cause) == ("decide", "c2", None)
    run.decided("retry")
    assert (run.due().todo, run.due().candidate, run.statuses()) == ("a", "c1", ["doing", "no-gain"])
    run.attempt(1.6).confirmed(1.6)
    assert (run.state.status, run.state.best) == (Status.FINISHED, "c3")
    assert run.statuses() == ["done", "no-gain"]


def test_a_best_that_the_full_check_rejects_is_dropped_and_nothing_is_claimed() -> None:
    run = Run(new_state(options(budget=Budget(attempts=1)))).planned("a").attempt(1.5)
    run.confirmed(1.5, Verdict.INPUT_SPECIALISED).baselines_timed()
    assert (run.state.status, run.state.best) == (Status.FINISHED, None)
    assert run.state.candidate("c1").verdict is Verdict.INPUT_SPECIALISED


def test_a_wrong_output_of_a_timed_call_takes_the_verdict_back() -> None:
    run = Run().planned("a").coded().built().checked()
    run.take(Timed, report=TimingReport(verdict=Verdict.INCORRECT, sentence="Call 7 differed."))
    assert run.state.candidate("c1").verdict is Verdict.INCORRECT
    assert run.kind() == "decide"


def test_trouble_of_the_machine_is_retried_twice_and_then_ends_the_run() -> None:
    run = Run().planned("a").coded()
    for _ in range(2):
        run.take(Broken, reason="The runner is gone.")
        assert run.kind() == "build"
    run.take(Broken, reason="The runner is gone.")
    assert run.state.status is Status.FAILED
    assert "The runner is gone." in run.state.error


def test_a_profile_that_cannot_be_made_is_left_out() -> None:
    run = Run().analysed()
    for _ in range(3):
        run.take(Broken, reason="No profiler.")
    assert run.kind() == "plan"


def test_three_unusable_plans_fail_a_run_that_has_nothing_yet() -> None:
    run = Run().analysed().take(Profiled, blob=REF)
    for _ in range(3):
        run.take(Unusable, reason="Not a list.")
    assert run.state.status is Status.FAILED
    assert "Not a list." in run.state.error


def test_an_unusable_decision_leaves_the_route_to_the_rules() -> None:
    run = Run().planned("a", "b").coded().built(ok=False).take(Unusable, reason="Nonsense.")
    assert (run.kind(), run.due().todo) == ("code", "a")
    assert run.state.usage.attempts == 1


def test_the_verifier_may_refine_what_is_verified_while_it_gains() -> None:
    run = Run().planned("a", "b").attempt(1.5, "optimise")
    assert run.due().candidate == "c1"
    run.attempt(1.8, "optimise").attempt(1.8, "optimise").attempt(1.8, "optimise").attempt(1.8, "optimise")
    assert run.statuses()[0] == "done"
    assert run.state.todo("a").measured == pytest.approx(1.5)


def test_a_late_or_repeated_outcome_changes_nothing() -> None:
    run = Run().planned("a").coded()
    before, outcome = run.state, Built(step=run.state.step, at=run.at, report=BuildReport(ok=True))
    once = apply(before, outcome)
    assert apply(once, outcome) == once
    assert apply(before, Checked(step=before.step, at=run.at, report=check())) == before


# ---- a person steers


def test_a_paused_run_asks_for_nothing_and_goes_on_where_it_was() -> None:
    run = Run().planned("a").coded().steered("pause")
    assert next_step(run.state) == Stop(status=Status.PAUSED)
    run.at += 1000
    run.steered("resume")
    assert run.kind() == "build"
    assert run.state.usage.wall_s < 100


def test_the_outcome_of_the_step_in_flight_is_kept_while_paused() -> None:
    run = Run().planned("a").coded().steered("pause").built()
    assert run.state.status is Status.PAUSED
    assert run.steered("resume").kind() == "check"


def test_cancel_ends_the_run_at_once() -> None:
    run = Run().planned("a").coded().steered("cancel").built()
    assert next_step(run.state) == Stop(status=Status.CANCELLED, cause=StopCause.CANCELLED)
    assert run.state.candidate("c1").build is None


def test_a_plan_waits_for_approval_and_the_clock_stands() -> None:
    run = Run(new_state(options(approve_plan=True, budget=Budget(wall_s=50)))).planned("a", "b")
    assert next_step(run.state) == Stop(status=Status.AWAITING_APPROVAL)
    run.at += 1000
    run.steered("edit_plan", todos=[{"id": "b", "title": "B first"}, {"id": "a", "status": "dropped"}, {"title": "Mine"}])
    run.steered("approve_plan")
    assert run.due().todo == "b"
    assert [(t.id, t.title, t.status) for t in run.state.plan.todos] == [
        ("b", "B first", "doing"), ("a", "a", "dropped"), ("t3", "Mine", "open"),
    ]  # fmt: skip


def test_a_hint_and_a_branch_reach_the_next_candidate() -> None:
    run = Run().planned("a", "b", "c").attempt(1.5).attempt(1.2)
    run.steered("hint", text="Use bigger tiles.").steered("branch", **{"from": "c2"})
    assert run.state.hints == ("Use bigger tiles.",)
    assert run.state.branch_from == "c2"
    run.take(Coded, files={"model_new.py": REF}, sha256="x", title="t", todo="c", parent="c2")
    assert run.state.branch_from is None
    assert run.state.candidate("c3").parent == "c2"


def test_a_program_written_by_hand_is_verified_next_and_may_become_the_best() -> None:
    run = Run().planned("a", "b").attempt(1.5).coded()
    control = hand_made("h1", "Ada", program("mine"), "c1", "My tiles", BLOBS)
    run.steered("candidate", control="h1", **control.data)
    run.built(ok=False).decided("retry")
    assert run.state.candidate("c3").author == "person"
    run.built().checked().timed(2.0).profiled_if_due().decided()
    assert run.state.best == "c3"
    assert (run.kind(), run.due().todo, run.due().candidate) == ("code", "b", "c2")
    assert run.state.usage.attempts == 2


def test_a_program_handed_in_during_the_confirmation_is_still_tried() -> None:
    run = Run().planned("a").attempt(1.5)
    control = hand_made("h1", "Ada", program("mine"), "c1", "My tiles", BLOBS)
    run.steered("candidate", control="h1", **control.data).confirmed(1.5)
    assert run.kind() == "build"
    run.built().checked().timed(2.0).profiled_if_due().decided().confirmed(1.9)
    assert (run.state.status, run.state.best) == (Status.FINISHED, "c2")


def test_a_control_delivered_twice_acts_once() -> None:
    run = Run().planned("a").steered("hint", control="h", text="One.").steered("hint", control="h", text="One.")
    assert run.state.hints == ("One.",)


def test_the_state_survives_its_own_json() -> None:
    run = Run().planned("a", "b").attempt(1.5).coded()
    assert State.model_validate_json(run.state.model_dump_json()) == run.state


@pytest.mark.parametrize("before", ["plan", "code"])
def test_a_question_that_the_budget_does_not_cover_ends_the_run_with_that_cause(before: str) -> None:
    run = Run().planned("a") if before == "code" else Run().analysed().profiled()
    run.take(Unusable, reason="It does not cover a question.", spent=StopCause.BUDGET_TOKENS).baselines_timed()
    assert (run.state.status, run.state.stop_cause) == (Status.FINISHED, StopCause.BUDGET_TOKENS)
    assert run.state.usage.attempts == 0


def test_the_best_is_still_confirmed_when_the_budget_covers_no_further_question() -> None:
    run = Run().planned("a", "b").attempt(1.5)
    run.take(Unusable, reason="It does not cover a question.", spent=StopCause.BUDGET_MONEY)
    assert run.kind() == "check"
    run.confirmed(1.5)
    assert (run.state.status, run.state.stop_cause, run.state.best) == (Status.FINISHED, StopCause.BUDGET_MONEY, "c1")
