"""An engineer with tools has the runners for hands: its tasks are jobs, counted, told, cancelled and found again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from agents.engineers import CodeAnswer, Context
from agents.engineers.scripted import Scripted
from agents.state import Candidate, Todo
from agents.steps import measuring
from gpu_runner.contracts import CandidateFiles, Report, Source
from gpu_runner.hands import Cancelled, HandsError
from stitchweb.runs import hands as lent
from stitchweb.runs import jobbook, services
from stitchweb.runs.models import Event, Job, JobState, Run
from stitchweb.runs.orchestrator import advance
from stitchweb.runs.sweeper import sweep
from tests.agents.loop_world import FakeHands, options, program, scripted_name, todo
from tests.conftest import World, build_world
from tests.stitchweb.conveyor import Conveyor, Runner, heard

pytestmark = pytest.mark.django_db(transaction=True)
Work = Callable[[Callable[[str], Report]], object]


class Tooled(Scripted):
    """Has `work` done with the hands before it hands its program in; keeps what became of it."""

    def __init__(self, work: Work) -> None:
        super().__init__(plans=[[todo()]], codes=[program("one")])
        self.work, self.said = work, ""
        self.seconds: list[float] = []

    def code(self, context: Context, item: Todo, parent: Candidate | None, failed: Candidate | None) -> CodeAnswer:
        source, files = Source(text=context.source), CandidateFiles(files=program("draft"))

        def ask(kind: str) -> Report:
            assert context.hands is not None
            return context.hands(measuring(kind, context.state.options, source, files, 60.0))

        try:
            self.work(ask)
        except HandsError as error:
            self.said = str(error)
        assert context.hands is not None
        self.seconds.append(context.hands.seconds)
        answer = super().code(context, item, parent, failed)
        usage = answer.usage.model_copy(update={"device_s": context.hands.seconds})
        return CodeAnswer(answer.files, answer.title, answer.note, usage)


@pytest.fixture
def world() -> World:
    return build_world()


@pytest.fixture
def turning(monkeypatch: pytest.MonkeyPatch, conveyor: Conveyor) -> Callable[[FakeHands], None]:
    """While an engineer waits, the runners work on what lies in their queues."""

    def turn(hands: FakeHands) -> None:
        monkeypatch.setattr(lent, "wait", lambda: conveyor.run(hands))

    return turn


def begin(world: World, work: Work) -> tuple[Run, Tooled]:
    engineer = Tooled(work)
    return services.start_run(world.owner, world.revision, options(scripted_name(engineer))), engineer


def test_what_an_engineer_builds_and_checks_are_jobs_of_the_runners_and_the_runs_time(
    world: World, conveyor: Conveyor, turning: Any
) -> None:
    got: list[str] = []

    def work(ask: Callable[[str], Report]) -> None:
        got.extend(ask(kind).kind for kind in ("build", "check", "time", "build"))

    run, engineer = begin(world, work)
    hands = FakeHands()
    turning(hands)
    conveyor.run(hands)
    run.refresh_from_db()
    assert (run.status, run.verdict) == ("finished", "verified")
    assert got == ["build", "check", "timing", "build"]
    jobs = Job.objects.filter(run=run, within__isnull=False)
    assert [job.kind for job in jobs] == ["build", "check", "time", "build"]
    assert {job.state for job in jobs} == {JobState.DONE}
    assert engineer.seconds == [pytest.approx(sum(job.seconds for job in jobs))]
    steps = sum(job.seconds for job in Job.objects.filter(run=run, step__isnull=False))
    assert run.device_s == pytest.approx(steps + engineer.seconds[0])
    seqs = list(Event.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, run.last_seq + 1))
    rows = [e.payload["candidate"] for e in Event.objects.filter(run=run, kind="check.row")]
    assert None not in rows
    assert "" not in rows


def test_it_waits_for_a_runner_says_so_and_goes_on_without_one(
    world: World, conveyor: Conveyor, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard("w", ["run.cpu"])
    run, engineer = begin(world, lambda ask: ask("build"))
    monkeypatch.setattr(lent, "QUEUE_S", -1.0)
    monkeypatch.setattr(lent, "wait", lambda: None)
    conveyor.run(FakeHands())
    assert "No runner for cpu took it" in engineer.said
    assert [job.state for job in Job.objects.filter(run=run, within__isnull=False)] == [JobState.CANCELLED]
    run.refresh_from_db()
    assert run.verdict == "verified"


def test_a_cancelled_run_ends_its_engineers_jobs_too(world: World, conveyor: Conveyor, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = begin(world, lambda ask: ask("build"))

    def cancel() -> None:
        if Run.objects.filter(pk=run.pk, cancel_requested_at=None).exists():
            services.control(world.owner, run, "cancel")

    monkeypatch.setattr(lent, "wait", cancel)
    monkeypatch.setattr("stitchweb.runs.orchestrator.CANCEL_POLL_S", 0.0)
    conveyor.run(FakeHands())
    run.refresh_from_db()
    assert run.status == "cancelled"
    [job] = Job.objects.filter(run=run, within__isnull=False)
    assert job.state == JobState.CANCELLED
    with pytest.raises(jobbook.JobGone):
        jobbook.progress(job.pk, "x", 1, [])


class Died(BaseException):
    """The worker's process is gone, and with it all that it would have done."""


def test_a_worker_that_dies_leaves_results_that_the_next_one_finds(
    world: World, conveyor: Conveyor, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, engineer = begin(world, lambda ask: (ask("build"), ask("check")))
    hands = FakeHands()

    def die() -> None:
        conveyor.run(hands)
        if Job.objects.filter(run=run, within__isnull=False, kind="check").exists():
            raise Died

    monkeypatch.setattr(lent, "wait", die)
    with pytest.raises(Died):
        conveyor.run(hands)
    before = list(Job.objects.filter(run=run, within__isnull=False).values_list("pk", "kind", "state"))
    assert [row[1:] for row in before] == [("build", "done"), ("check", "done")]
    Run.objects.filter(pk=run.pk).update(lease_expires=timezone.now(), poked_at=None)
    sweep()
    monkeypatch.setattr(lent, "wait", lambda: conveyor.run(hands))
    conveyor.run(hands)
    run.refresh_from_db()
    assert run.verdict == "verified"
    assert list(Job.objects.filter(run=run, within__isnull=False).values_list("pk", "kind", "state")) == before
    assert len(engineer.seconds) == 1


def test_a_runner_that_dies_has_the_job_given_to_another(
    world: World, conveyor: Conveyor, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = begin(world, lambda ask: ask("build"))
    hands, dead = FakeHands(), []

    def turn() -> None:
        job = Job.objects.filter(run=run, within__isnull=False).get()
        if not dead:
            message = next(m for m in conveyor.messages if m[2].get("job", {}).get("id") == job.pk)
            conveyor.messages.remove(message)
            runner = Runner(message[2]["job"])
            assert runner.claim("one that dies")
            dead.append(runner)
            Job.objects.filter(pk=job.pk).update(lease_expires=timezone.now())
            Job.objects.filter(pk=job.pk).update(created_at=timezone.now() - jobbook.TOKEN_LIFE / 2)
            sweep()
        conveyor.run(hands)

    monkeypatch.setattr(lent, "wait", turn)
    conveyor.run(hands)
    run.refresh_from_db()
    assert run.verdict == "verified"
    [job] = Job.objects.filter(run=run, within__isnull=False)
    assert (job.state, job.claims) == (JobState.DONE, 2)


def test_a_run_that_has_ended_lends_nobody_anything(world: World, conveyor: Conveyor) -> None:
    asked: list[Callable[[str], Report]] = []
    run, _ = begin(world, asked.append)
    conveyor.run(FakeHands())
    assert asked
    with pytest.raises(Cancelled):
        asked[0]("build")
    advance(run.pk)
    assert not Job.objects.filter(run=run, within__isnull=False).exists()
