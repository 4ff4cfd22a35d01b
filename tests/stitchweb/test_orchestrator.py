"""The imperative shell: whole runs with a scripted engineer and fake hands, and everything that goes wrong in between."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.engineers.scripted import Scripted
from agents.events import View, fold_all
from agents.state import Budget
from gpu_runner.broker import TASK
from gpu_runner.contracts import Verdict
from gpu_runner.hands import HandsError
from stitchweb.runs import history, orchestrator, services
from stitchweb.runs.lease import acquire, release, renew
from stitchweb.runs.models import Control, ControlState, Event, Job, JobState, Run, RunState
from tests.agents.loop_world import FakeHands, check, options, program, scripted_name, timing, todo
from tests.conftest import World, build_world
from tests.stitchweb.conveyor import Conveyor, Runner

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world() -> World:
    return build_world()


def begin(world: World, engineer: Scripted | None = None, **more: object) -> Run:
    engineer = engineer or Scripted(plans=[(todo(),)], codes=[program("one")])
    return services.start_run(world.owner, world.revision, options(scripted_name(engineer), **more))


def fresh(run: Run) -> Run:
    return Run.objects.get(pk=run.pk)


def events_are_whole(run: Run) -> View:
    """Every event once and in order, and the stored fold equal to the fold of all of them."""
    seqs = list(Event.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, fresh(run).last_seq + 1))
    told = [row.contract for row in Event.objects.filter(run=run).order_by("seq")]
    view = history.view_of(run.pk)
    assert view == fold_all(View(), told)
    return view


def test_a_run_goes_from_its_start_to_a_verified_end(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    conveyor.run(FakeHands())
    run = fresh(run)
    assert (run.status, run.verdict, run.best) == ("finished", "verified", "c1")
    assert run.speedup == pytest.approx(1.5)
    assert run.stored.result["verdict"] == "verified"
    view = events_are_whole(run)
    assert view.result is not None
    assert view.result.verdict == "verified"
    assert run.lease == ""
    assert not Job.objects.filter(state__in=["queued", "claimed"]).exists()


def test_progress_of_the_hands_is_told_on_the_page(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    conveyor.run(FakeHands())
    assert "build line" in events_are_whole(run).log["build"]


def test_what_the_engineer_says_is_told_on_the_page(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    conveyor.run(FakeHands())
    assert "Reading the script." in events_are_whole(run).log["engineer"]


def test_every_step_is_one_job_also_when_every_message_comes_twice(world: World, conveyor: Conveyor) -> None:
    class Twice(Conveyor):
        def send(self, name, queue, **arguments):  # type: ignore[no-untyped-def]
            conveyor.messages.append((name, queue, arguments))
            conveyor.messages.append((name, queue, arguments))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stitchweb.runs.dispatch.send", Twice().send)
        run = begin(world)
        hands = FakeHands()
        conveyor.run(hands)
    assert fresh(run).verdict == "verified"
    assert len(hands.tasks) == Job.objects.filter(run=run).count()
    events_are_whole(run)


def test_a_run_whose_lease_is_held_is_left_alone(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    lease = acquire(run.pk)
    assert lease is not None
    conveyor.run(FakeHands())
    assert fresh(run).status == "queued"
    release(lease)
    orchestrator.advance(run.pk)
    assert fresh(run).status == "analysing"


def test_a_lease_that_ran_out_is_free_and_its_holder_may_not_write(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    old = acquire(run.pk)
    assert old is not None
    assert acquire(run.pk) is None
    Run.objects.filter(pk=run.pk).update(lease_expires=timezone.now() - timedelta(seconds=1))
    new = acquire(run.pk)
    assert new is not None
    assert not renew(old)
    with pytest.raises(orchestrator.LeaseLost):
        orchestrator._decide(old)
    release(old)
    assert fresh(run).lease == new.token


def test_an_engineer_whose_worker_lost_the_lease_changes_nothing(world: World, conveyor: Conveyor) -> None:
    class Thief(Scripted):
        def plan(self, context):  # type: ignore[no-untyped-def]
            Run.objects.filter(pk=int(context.state.run)).update(lease="somebody else")
            return super().plan(context)

    run = begin(world, Thief(plans=[(todo(),)]))
    conveyor.run(FakeHands())
    assert fresh(run).status == "planning"
    assert fresh(run).lease == "somebody else"
    events_are_whole(run)


def test_a_runner_without_a_sandbox_ends_the_run_with_the_cause(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    conveyor.run(FakeHands(analyse=HandsError("No sandbox: user namespaces are switched off.")))
    run = fresh(run)
    assert run.status == "failed"
    assert "user namespaces are switched off" in run.sentence
    assert Job.objects.filter(run=run, kind="analyse").count() == 3


def test_an_incorrect_candidate_is_no_gain(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    conveyor.run(FakeHands(check=check(Verdict.INCORRECT, sentence="Draw 1 differs.")))
    run = fresh(run)
    assert (run.status, run.verdict, run.best) == ("finished", "no-gain", "")
    assert events_are_whole(run).candidates["c1"].verdict == "incorrect"


def test_an_unexpected_fault_is_retried_and_then_fails_the_run(
    world: World, conveyor: Conveyor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **more: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    run = begin(world)
    monkeypatch.setattr(orchestrator, "think", broken)
    conveyor.run(FakeHands())
    run = fresh(run)
    assert run.status == "failed"
    assert "ZeroDivisionError: a fault of ours" in run.sentence
    events_are_whole(run)


def test_a_state_of_another_version_is_said_and_not_guessed(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    RunState.objects.filter(run=run).update(state={"schema_version": 99})
    conveyor.run(FakeHands())
    assert fresh(run).status == "failed"
    assert "another version" in fresh(run).sentence


def test_a_cancelled_run_ends_at_once_and_its_job_with_it(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    conveyor.run()
    [message] = conveyor.sent(TASK)
    runner = Runner(message["job"])
    assert runner.claim()
    services.control(world.owner, run, "cancel")
    assert runner.progress()[1] == {"cancel": True}
    conveyor.run()
    assert fresh(run).status == "cancelled"
    assert Job.objects.get(run=run).state == JobState.CANCELLED
    assert runner.progress()[0] == 410
    assert events_are_whole(run).controls[str(Control.objects.get().pk)].state == "applied"


def test_cancel_reaches_an_engineer_that_is_thinking(world: World, conveyor: Conveyor) -> None:
    from gpu_runner.hands import Cancelled

    class Slow(Scripted):
        def plan(self, context):  # type: ignore[no-untyped-def]
            services.control(world.owner, run, "cancel")
            if context.cancelled():
                raise Cancelled
            raise AssertionError("nobody told the engineer")

    run = begin(world, Slow())
    conveyor.run(FakeHands())
    assert fresh(run).status == "cancelled"
    events_are_whole(run)


def test_a_paused_run_takes_what_was_under_way_and_begins_nothing_new(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    conveyor.run()
    services.control(world.owner, run, "pause")
    hands = FakeHands()
    conveyor.run(hands)
    paused = fresh(run)
    assert paused.status == "paused"
    assert paused.load().analysis is not None
    assert len(hands.tasks) == 1
    services.control(world.owner, run, "resume")
    conveyor.run(hands)
    assert fresh(run).verdict == "verified"
    assert set(Control.objects.values_list("state", flat=True)) == {ControlState.APPLIED}
    events_are_whole(run)


def test_a_plan_waits_for_approval_when_asked_to(world: World, conveyor: Conveyor) -> None:
    run = begin(world, approve_plan=True)
    conveyor.run(FakeHands())
    assert fresh(run).status == "awaiting_approval"
    services.control(world.owner, run, "approve_plan")
    conveyor.run(FakeHands())
    assert fresh(run).verdict == "verified"


def test_a_program_edited_by_hand_is_tried_like_any_other(world: World, conveyor: Conveyor) -> None:
    run = begin(world, approve_plan=True)
    conveyor.run(FakeHands())
    services.control(world.owner, run, "candidate", {"files": program("by hand"), "parent": None, "title": "By hand"})
    conveyor.run(FakeHands(time=timing(2.0)))
    mine = fresh(run).load().candidates[0]
    assert (mine.author, mine.title, mine.verified) == ("person", "By hand", True)


def test_a_control_without_sense_is_refused_with_a_sentence(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    with pytest.raises(services.ControlRefused, match="not paused"):
        services.control(world.owner, run, "resume")
    with pytest.raises(services.ControlRefused, match=r"model_new\.py"):
        services.control(world.owner, run, "candidate", {"files": {"kernels/a.cpp": "int a;"}})
    assert not Control.objects.exists()


def test_the_budget_of_attempts_ends_a_run(world: World, conveyor: Conveyor) -> None:
    codes = [program(str(i)) for i in range(9)]
    todos = tuple(todo(title=f"Number {i}") for i in range(9))
    run = begin(world, Scripted(plans=[todos], codes=codes), budget=Budget(attempts=2, wall_s=None))
    conveyor.run(FakeHands())
    assert fresh(run).stop_cause == "budget-attempts"
    assert fresh(run).candidates == 2


def test_a_run_keeps_its_analysis_for_its_revision(world: World, conveyor: Conveyor) -> None:
    begin(world)
    conveyor.run(FakeHands())
    world.revision.refresh_from_db()
    assert world.revision.analysis_state == "done"
    assert world.revision.report is not None
    assert world.revision.report.eager_ms == 10.0


def test_snapshots_keep_opening_a_page_cheap(
    world: World, conveyor: Conveyor, django_assert_max_num_queries, monkeypatch: pytest.MonkeyPatch
) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(history, "SNAPSHOT_EVERY", 5)
    run = begin(world)
    conveyor.run(FakeHands())
    events_are_whole(run)
    with django_assert_max_num_queries(2):
        history.view_of(run.pk)
