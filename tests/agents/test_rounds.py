"""A round: several programs for one item at once, each in a lane of its own, and one decision over them."""

from __future__ import annotations

import pytest

from agents.engineers import Context
from agents.engineers.llm import evidence
from agents.fingerprint import fingerprint
from agents.loop import apply, next_step, open_steps, under_way
from agents.loop.memory import failures
from agents.loop.rounds import allotted
from agents.state import (
    Broken,
    Budget,
    Built,
    Checked,
    Coded,
    Decided,
    Decision,
    Outcome,
    Search,
    State,
    Status,
    Step,
    Stop,
    StopCause,
    Timed,
    Unusable,
    Usage,
)
from agents.steps import STEP_LIMITS_S, task_for
from gpu_runner.contracts import BuildReport
from tests.agents.loop_run import BLOBS, Run
from tests.agents.loop_world import analysis, check, new_state, options, program, timing


class Wide(Run):
    """Answers the step of a lane by the lane's number."""

    def __init__(self, width: int = 3, beam: int = 1, samples: bool = True, **more: object) -> None:
        super().__init__(new_state(options(search=Search(width=width, beam=beam, samples=samples), **more), BLOBS))
        self.texts = 0

    def step_of(self, lane: int) -> Step:
        return next(step for step in under_way(self.state) if step.lane == lane)

    def answer(self, lane: int, kind: type[Outcome], seconds: float = 1.0, **fields: object) -> Wide:
        self.at += seconds
        self.state = apply(self.state, kind(step=self.step_of(lane).index, at=self.at, seconds=seconds, **fields))
        return self

    def write(self, lane: int, text: str = "", usage: Usage | None = None) -> Wide:
        self.texts += 1
        files = program(text or f"number {self.texts}")
        refs = {path: BLOBS.put(body.encode()) for path, body in files.items()}
        step = self.step_of(lane)
        return self.answer(
            lane, Coded, files=refs, sha256=f"{text}{self.texts}", fingerprint=fingerprint(files), title="t", todo=step.todo,
            parent=step.candidate, usage=usage or Usage(),
        )  # fmt: skip

    def fail(self, lane: int) -> Wide:
        return self.write(lane).answer(lane, Built, report=BuildReport(ok=False, diagnostics=(f"lane {lane}: no",)))

    def right(self, lane: int, speedup: float) -> Wide:
        self.write(lane).answer(lane, Built, report=BuildReport(ok=True)).answer(lane, Checked, report=check())
        return self.answer(lane, Timed, report=timing(speedup))

    def decide(self, route: str) -> Wide:
        self.profiled_if_due()
        assert self.kind() == "decide", self.kind()
        self.take(Decided, decision=Decision(candidate=self.state.current, route=route))
        return self

    def kinds(self) -> list[str]:
        return [step.kind for step in open_steps(self.state)]


def begun(width: int = 3, *todos: str, **more: object) -> Wide:
    run = Wide(width, **more)
    run.planned(*(todos or ("a",)))
    return run


def test_several_programs_are_written_at_once_and_the_fastest_is_decided_on() -> None:
    run = begun(3)
    assert run.kinds() == ["code"] * 3
    assert len({step.index for step in open_steps(run.state)}) == 3
    run.right(2, 1.5).right(3, 2.0)
    assert (run.state.status, run.kinds()) == (Status.CODING, ["code"])
    run.fail(1)
    assert run.state.round is None
    assert (run.kind(), run.state.current, run.state.best) == ("profile", "c2", "c2")
    run.decide("advance")
    assert (run.state.stop_cause, run.due().candidate) == (StopCause.TODOS_DONE, "c2")
    assert {c.round for c in run.state.candidates} == {1}
    assert run.state.usage.attempts == 3


def test_a_round_counts_once_for_patience_for_failures_and_for_tries() -> None:
    run = begun(3).fail(1).fail(2).fail(3)
    assert (run.state.failures_in_row, run.state.tries) == (1, {"a": 1})
    run.decide("retry")
    assert [lane.base for lane in run.state.round.lanes] == ["c3"] * 3
    run.right(1, 1.0).right(2, 1.01).fail(3)
    assert (run.state.failures_in_row, run.state.gainless_in_row, run.state.tries) == (0, 1, {"a": 2})


def test_the_best_few_are_the_parents_of_a_round_the_reference_where_they_are_fewer() -> None:
    run = begun(4, "a", "b", "c", beam=2)
    assert [lane.base for lane in run.state.round.lanes] == [None] * 4
    run.right(1, 1.5).right(2, 1.8).fail(3).fail(4).decide("advance")
    assert [lane.base for lane in run.state.round.lanes] == ["c2", "c1", "c2", "c1"]
    only = begun(2, "a", "b", beam=2).right(1, 1.5).fail(2).decide("advance")
    assert [lane.base for lane in only.state.round.lanes] == ["c1", None]


def test_a_coder_that_always_answers_alike_has_one_lane_per_parent() -> None:
    run = begun(4, "a", "b", beam=2, samples=False)
    assert len(run.state.round.lanes) == 1
    run.right(1, 1.5).decide("advance")
    assert [lane.base for lane in run.state.round.lanes] == ["c1", None]


def test_a_persons_branch_is_where_the_whole_next_round_starts() -> None:
    run = begun(2, "a", "b", beam=2).right(1, 1.5).right(2, 1.2)
    run.steered("branch", **{"from": "c2"})
    run.decide("advance")
    assert [lane.base for lane in run.state.round.lanes] == ["c2", "c2"]
    run.right(1, 1.3).right(2, 1.3)
    assert run.state.branch_from is None


def test_the_same_program_under_other_names_is_told_to_its_coder_once_and_never_verified_twice() -> None:
    run = begun(2).write(1, "same").write(2, "same")
    assert len(run.state.candidates) == 1
    assert run.kinds() == ["build", "code"], "its Coder is asked once more"
    assert "same program as c1 but for names" in run.state.todo("a").note
    assert any("same program as c1" in line for line in failures(run.state))
    run.write(2, "same")
    assert run.kinds() == ["build"]
    assert run.state.usage.attempts == 3


def test_a_repeated_program_is_not_asked_for_again_when_the_attempts_are_spoken_for() -> None:
    run = begun(2, budget=Budget(attempts=2, wall_s=None)).write(1, "same").write(2, "same")
    assert run.kinds() == ["build"]


def test_unusable_answers_end_their_lanes_and_the_round_goes_on_without_them() -> None:
    run = begun(3).answer(1, Unusable, reason="No code in it.").right(2, 1.5).answer(3, Unusable, reason="Prose.")
    assert run.decide("advance").state.candidate("c1").verified
    assert [line for line in failures(run.state) if "Prose." in line]
    alone = begun(2, "a", "b").answer(1, Unusable, reason="No.").answer(2, Unusable, reason="No.")
    assert (alone.state.failures_in_row, alone.state.rounds, alone.kinds()) == (1, 2, ["code", "code"])


def test_a_lane_whose_machine_fails_leaves_the_others_alone_and_all_of_them_fail_the_run() -> None:
    run = begun(2)
    for _ in range(3):
        run.answer(1, Broken, reason="No runner.")
    assert run.kinds() == ["code"]
    assert run.right(2, 1.5).decide("advance").state.best == "c1"
    run = begun(2)
    for lane in (1, 1, 2, 2, 1, 2):
        run.answer(lane, Broken, reason="No sandbox here.")
    assert run.state.status is Status.FAILED
    assert "No sandbox here." in run.state.error


def test_outcomes_that_come_twice_or_late_or_of_another_kind_change_nothing() -> None:
    run = begun(2)
    step = run.step_of(1)
    run.write(1)
    late = Unusable(step=step.index, at=run.at, reason="late")
    assert apply(run.state, late) == run.state
    assert apply(run.state, Checked(step=run.step_of(1).index, at=run.at, report=check())) == run.state
    assert apply(run.state, Built(step=run.state.step, at=run.at, report=BuildReport(ok=True))) == run.state


def test_a_pause_lets_what_is_under_way_end_and_begins_nothing_more() -> None:
    run = begun(2).write(1)
    run.steered("pause")
    assert next_step(run.state) == Stop(status=Status.PAUSED)
    assert [step.kind for step in under_way(run.state)] == ["build", "code"]
    run.answer(1, Built, report=BuildReport(ok=True)).write(2)
    assert under_way(run.state) == ()
    run.steered("resume")
    assert sorted(run.kinds()) == ["build", "check"]


def test_a_pause_in_which_the_round_ends_leads_on_to_its_decision() -> None:
    run = begun(2).fail(1).write(2)
    run.steered("pause")
    run.answer(2, Built, report=BuildReport(ok=False))
    assert (run.state.status, run.state.resume) == (Status.PAUSED, Status.DECIDING)
    run.steered("resume")
    assert run.kind() == "decide"


def test_cancel_ends_every_lane_at_once() -> None:
    run = begun(3).write(1)
    run.steered("cancel")
    assert (run.state.status, run.state.round, under_way(run.state)) == (Status.CANCELLED, None, ())


def test_a_budget_that_is_spent_in_a_round_begins_nothing_more_and_takes_what_is_under_way() -> None:
    run = begun(3, budget=Budget(wall_s=30.0)).right(1, 1.5).write(2)
    run.answer(3, Unusable, seconds=30.0, reason="Too slow.")
    assert [step.kind for step in under_way(run.state)] == ["build"]
    run.answer(2, Built, report=BuildReport(ok=True))
    assert (run.state.stop_cause, run.state.candidate("c2").status) == (StopCause.BUDGET_WALL, "done")
    assert (run.kind(), run.due().candidate) == ("check", "c1"), "what was found before is confirmed"


def test_a_round_is_as_wide_as_the_attempts_the_tokens_and_the_device_seconds_allow() -> None:
    assert len(begun(8, budget=Budget(attempts=5, wall_s=None)).state.round.lanes) == 5
    assert len(begun(8, budget=Budget(tokens=9000, wall_s=None)).state.round.lanes) == 2
    assert len(begun(8, budget=Budget(device_s=200.0, wall_s=None)).state.round.lanes) == 3
    assert len(begun(8, budget=Budget(tokens=10, wall_s=None)).state.round.lanes) == 1


@pytest.mark.parametrize("spent", [0, 3000])
def test_a_lanes_coder_sees_its_share_of_what_is_left(spent: int) -> None:
    run = begun(3, budget=Budget(tokens=30_000, money=3.0, device_s=303.0, wall_s=None))
    run.write(1, usage=Usage(tokens_in=spent, money=0.5))
    seen = allotted(run.state, run.step_of(2))
    assert seen.step == run.step_of(2).index
    assert seen.options.budget.tokens == run.state.usage.tokens_in + 10_000
    assert seen.options.budget.money == pytest.approx(0.5 + 1.0)
    assert allotted(run.state, Step(index=0, kind="plan")) is run.state
    task = task_for(run.step_of(1), run.state, BLOBS)
    assert task.limits.wall_s == pytest.approx((303.0 - 2.0) / 3)  # the analysis and the profile took a second each
    assert task.limits.wall_s < STEP_LIMITS_S["build"]


def test_a_lane_without_device_seconds_stops_where_it_is() -> None:
    run = begun(2, budget=Budget(device_s=122.0, wall_s=None)).write(1).write(2)
    run.answer(1, Built, seconds=55.0, report=BuildReport(ok=True))
    assert [step.lane for step in under_way(run.state)] == [2]
    assert "budget was spent" in run.state.candidate("c1").note


def test_a_share_that_covers_no_question_ends_the_run_only_when_nothing_was_written() -> None:
    cause = StopCause.BUDGET_TOKENS
    run = begun(2).answer(1, Unusable, reason="Too dear.", spent=cause).answer(2, Unusable, reason="Too dear.", spent=cause)
    assert (run.state.stop_cause, run.state.usage.attempts) == (cause, 0)
    run = begun(2).answer(1, Unusable, reason="Too dear.", spent=cause).right(2, 1.5)
    assert run.state.stop_cause is None


def test_a_persons_program_is_tried_between_two_rounds() -> None:
    run = begun(2, "a", "b").fail(1)
    ref = BLOBS.put(b"x").model_dump()
    run.steered("candidate", files={"model_new.py": ref}, sha256="mine", title="Mine")
    run.fail(2).decide("advance")
    assert (run.kind(), run.state.candidate(run.state.current or "").author, run.state.round) == ("build", "person", None)
    run.built().checked().timed(1.2).profiled_if_due().decided()
    assert run.kinds() == ["code", "code"]


def test_a_width_of_one_has_no_rounds() -> None:
    run = begun(1, beam=1)
    assert (run.state.round, run.kinds()) == (None, ["code"])


def test_what_failed_is_remembered_in_few_lines_by_its_cause() -> None:
    run = begun(8, *"abcdefgh", patience=99, replan_failures=99, budget=Budget(attempts=60, wall_s=None))
    for _ in range(5):
        for lane in range(1, 9):
            run.answer(lane, Unusable, reason=f"Reason {run.at}.") if lane == 8 else run.fail(lane)
        run.decide("advance")
    lines = failures(run.state)
    assert 7 < len(lines) <= 24
    assert all(len(line) <= 260 for line in lines)
    assert next(line for line in lines if "lane 3: no" in line).startswith("c17, c24, c31: build-failed")


def test_a_coder_is_told_what_failed_once_and_with_its_cause() -> None:
    run = begun(8, *"abcd", patience=99, replan_failures=99, budget=Budget(attempts=60, wall_s=None))
    for _ in range(2):
        for lane in range(1, 9):
            run.answer(lane, Unusable, reason="No block of code.") if lane == 8 else run.fail(lane)
        run.decide("advance")
    parts = {part.title: part.text for part in evidence.tried(Context(run.state, "", analysis(), BLOBS))}
    recent, failed = parts["Tried before"], parts["What failed so far, not to be written again"]
    assert recent.startswith("c3 ")
    assert "c1: build-failed. lane 1: no" in failed
    assert "c3:" not in failed, "it is among the recent ones"
    assert "no program: “b”: No block of code." in failed


def test_a_round_survives_its_own_json() -> None:
    run = begun(3).write(1).write(2)
    assert State.model_validate_json(run.state.model_dump_json()) == run.state


def test_a_state_from_before_there_were_rounds_is_read_as_one_without_them() -> None:
    state = Run().planned("a").attempt(1.5).state
    old = state.model_dump(mode="json")
    for name in ("round", "rounds", "rejected"):
        del old[name]
    del old["options"]["search"]
    for candidate in old["candidates"]:
        del candidate["round"], candidate["fingerprint"]
    assert State.model_validate(old) == state
