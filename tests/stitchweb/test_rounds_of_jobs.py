"""Runs with several steps in flight: each its own job with its own lease, done in any order, by whoever takes it."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents.engineers import Context
from agents.engineers.scripted import Scripted
from agents.events import View
from agents.state import Budget, Search
from gpu_runner.broker import TASK
from gpu_runner.contracts import BuildReport, Progress
from gpu_runner.hands import Cancelled
from stitchweb.runs import dispatch, jobbook, services, sweeper, thinking
from stitchweb.runs.models import Event, Job, JobState, Run
from tests.agents.loop_world import FakeHands, options, program, scripted_name, timing, todo
from tests.conftest import World, build_world
from tests.stitchweb.conveyor import Conveyor, Runner
from tests.stitchweb.test_orchestrator import events_are_whole, fresh

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world() -> World:
    return build_world()


def begin(world: World, engineer: Scripted | None = None, width: int = 3, **more: object) -> Run:
    engineer = engineer or Scripted(plans=[(todo(),)], codes=[program(f"number {i}") for i in range(9)])
    search = Search(width=width, beam=2)
    return services.start_run(world.owner, world.revision, options(scripted_name(engineer), search=search, **more))


def thoughts(run: Run) -> list[Job]:
    return list(Job.objects.filter(run=run, queue=dispatch.AGENTS_QUEUE))


def until_round(conveyor: Conveyor, run: Run) -> None:
    """Deliver until the lanes of the first round are about to be thought; their messages wait."""
    hands = FakeHands()
    while fresh(run).load().round is None:
        conveyor.step(hands)
    assert len(conveyor.sent(dispatch.THINK)) == 3


def test_a_round_goes_to_its_end_and_the_fastest_is_kept(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    conveyor.run(FakeHands(time=[timing(1.2), timing(2.0), timing(1.1), timing(2.0)]))
    run = fresh(run)
    assert (run.status, run.verdict, run.best, run.candidates) == ("finished", "verified", "c2", 3)
    view = events_are_whole(run)
    assert {c.round for c in view.candidates.values()} == {1}
    assert {job.state for job in Job.objects.filter(run=run)} == {JobState.DONE}
    assert run.lease == ""


@pytest.mark.parametrize("seed", range(4))
def test_messages_in_any_order_and_twice_come_to_the_same(world: World, conveyor: Conveyor, seed: int) -> None:
    order = random.Random(seed)

    class Shuffled(Conveyor):
        def send(self, name: str, queue: str, **arguments: Any) -> None:
            for _ in range(2):
                conveyor.messages.insert(order.randint(0, len(conveyor.messages)), (name, queue, arguments))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stitchweb.runs.dispatch.send", Shuffled().send)
        run = begin(world)
        hands = FakeHands()
        conveyor.run(hands)
    run = fresh(run)
    assert (run.verdict, run.candidates) == ("verified", 3)
    assert len(hands.tasks) == Job.objects.filter(run=run).exclude(queue=dispatch.AGENTS_QUEUE).count()
    assert len(thoughts(run)) == 3
    events_are_whole(run)


def test_a_worker_that_dies_while_it_thinks_costs_its_step_alone(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    until_round(conveyor, run)
    dead = conveyor.sent(dispatch.THINK)[0]["job_id"]
    claimed = thinking._claim(dead)
    assert claimed is not None
    assert thinking._claim(dead) is None, "nobody else does it meanwhile"
    conveyor.run(FakeHands())
    assert fresh(run).load().round is not None
    assert fresh(run).candidates == 2
    past = timezone.now() - timedelta(seconds=60)
    Job.objects.filter(pk=dead).update(lease_expires=past, created_at=past)
    sweeper.sweep()
    conveyor.run(FakeHands())
    run = fresh(run)
    assert (run.verdict, run.candidates) == ("verified", 3)
    with pytest.raises(thinking.LeaseLost):
        thinking._store(claimed[0], thinking.Broken(step=claimed[1].index, at=0.0, reason="from the dead"))
    events_are_whole(run)


def test_a_step_that_ends_its_workers_again_and_again_is_given_up_and_others_go_on(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    until_round(conveyor, run)
    dead = conveyor.sent(dispatch.THINK)[0]["job_id"]
    conveyor.messages = type(conveyor.messages)(m for m in conveyor.messages if m[2].get("job_id") != dead)
    for _ in range(jobbook.MAX_CLAIMS):
        assert thinking._claim(dead) is not None
        Job.objects.filter(pk=dead).update(lease_expires=timezone.now() - timedelta(seconds=1))
        sweeper._free_lost_jobs()
    assert "agent worker fell silent" in Job.objects.get(pk=dead).error
    conveyor.run(FakeHands())
    assert fresh(run).verdict == "verified"
    assert len(thoughts(run)) == 4, "the lane was tried once more"


def test_a_lost_message_is_sent_again(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    until_round(conveyor, run)
    conveyor.messages.clear()
    Job.objects.update(created_at=timezone.now() - timedelta(seconds=60), sent_at=None)
    sweeper.sweep()
    conveyor.run(FakeHands())
    assert fresh(run).verdict == "verified"


def test_cancel_ends_the_jobs_of_every_lane_and_stops_who_thinks(world: World, conveyor: Conveyor) -> None:
    class Slow(Scripted):
        def code(self, context: Context, *more: Any) -> Any:
            services.control(world.owner, run, "cancel")
            assert context.cancelled()
            raise Cancelled

    run = begin(world, Slow(plans=[(todo(),)]))
    conveyor.run(FakeHands())
    assert fresh(run).status == "cancelled"
    assert {job.state for job in thoughts(run)} == {JobState.CANCELLED}
    events_are_whole(run)


def test_a_pause_takes_what_is_under_way_and_begins_nothing_new(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    until_round(conveyor, run)
    services.control(world.owner, run, "pause")
    conveyor.run(FakeHands())
    paused = fresh(run)
    assert (paused.status, paused.candidates) == ("paused", 3)
    assert not Job.objects.filter(run=run, kind="build").exists()
    services.control(world.owner, run, "resume")
    conveyor.run(FakeHands())
    assert fresh(run).verdict == "verified"
    events_are_whole(run)


def test_each_lane_has_its_runner_and_progress_is_told_of_its_own_candidate(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    until_round(conveyor, run)
    conveyor.run()  # all three are written; their builds wait
    runners = [Runner(message["job"]) for message in conveyor.sent(TASK)]
    assert len(runners) == 3
    assert all(runner.claim() for runner in runners)
    runners[1].progress(Progress(kind="stage", payload={"text": "Compiling k.cpp"}))
    runners[2].progress(Progress(kind="log", payload={"stream": "build", "text": "line of the third\n"}))
    view = events_are_whole(run)
    assert {line.doing for line in view.status.lanes} == {"Building c1", "Compiling k.cpp", "Building c3"}
    assert view.log["build 3"] == "line of the third\n"
    runners[0].report(BuildReport(ok=True).model_dump(mode="json"))
    conveyor.run()
    assert sorted(Job.objects.filter(run=run, state=JobState.CLAIMED).values_list("kind", flat=True)) == ["build", "build"]
    assert Job.objects.get(run=run, kind="check").candidate == "c1"


def test_a_page_says_that_a_run_waits_only_when_no_lane_moves(world: World, conveyor: Conveyor) -> None:
    run = begin(world)
    until_round(conveyor, run)
    conveyor.run()
    first = Runner(conveyor.sent(TASK)[0]["job"])
    assert first.claim()
    Job.objects.update(created_at=timezone.now() - timedelta(seconds=60))
    before = fresh(run).last_seq
    sweeper._say_why_they_wait()
    assert events_are_whole(run).status.waiting == ""
    for _ in range(3):
        sweeper._say_why_they_wait()
    assert fresh(run).last_seq == before, "two that wait do not answer each other for ever"


def test_a_fault_of_ours_in_a_lane_is_retried_and_then_leaves_the_others_alone(
    world: World, conveyor: Conveyor, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(world)
    until_round(conveyor, run)
    real = thinking.thought

    def broken(lease: Any, due: Any, state: Any) -> Any:
        if due.lane == 1:
            raise ZeroDivisionError("a fault of ours")
        return real(lease, due, state)

    monkeypatch.setattr(thinking, "thought", broken)
    conveyor.run(FakeHands())
    run = fresh(run)
    assert (run.verdict, run.candidates) == ("verified", 2)
    assert "a fault of ours" in "".join(str(e.payload) for e in Event.objects.filter(run=run, kind="log.lines"))


def test_the_budget_of_attempts_bounds_the_lanes(world: World, conveyor: Conveyor) -> None:
    todos = tuple(todo(title=f"Number {i}") for i in range(4))
    engineer = Scripted(plans=[todos], codes=[program(str(i)) for i in range(9)])
    run = begin(world, engineer, width=3, budget=Budget(attempts=4, wall_s=None))
    conveyor.run(FakeHands())
    run = fresh(run)
    assert (run.stop_cause, run.candidates) == ("budget-attempts", 4)
    view: View = events_are_whole(run)
    assert [c.round for c in view.candidates.values()] == [1, 1, 1, 2]
