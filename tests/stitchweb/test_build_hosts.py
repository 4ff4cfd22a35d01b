"""Builds for a CUDA device go to a host for builds while one is there; what it built is lent to the runner that measures it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents.engineers.scripted import Scripted
from agents.state import Step
from agents.steps import measuring
from gpu_runner.broker import TASK
from gpu_runner.contracts import BuildReport, CandidateFiles, CheckReport, Source, Verdict
from stitchweb.runs import hosts, jobbook, libraries, services
from stitchweb.runs.models import Artifact, Job, JobState, Run
from stitchweb.runs.models import Runner as Row
from stitchweb.runs.sweeper import forget, sweep
from tests.agents.loop_world import FakeHands, options, program, scripted_name, todo
from tests.conftest import World, build_world
from tests.stitchweb.conveyor import Conveyor, Runner, heard

pytestmark = pytest.mark.django_db(transaction=True)
LIBRARY = b"\x7fELF a library"
BUILT = BuildReport(ok=True, artifact="b" * 64, size=len(LIBRARY), kernels=("k(float*)",))


@pytest.fixture
def world() -> World:
    return build_world()


def begin(world: World, target: str = "sm_90") -> Run:
    engineer = Scripted(plans=[[todo()]], codes=[program("one")])
    return services.start_run(world.owner, world.revision, options(scripted_name(engineer), target=target))


def until(conveyor: Conveyor, kind: str) -> Runner:
    """Everything is done up to the first job of that kind, which is left to the test."""
    while conveyor.messages:
        name, _, arguments = conveyor.messages[0]
        if name == TASK and Job.objects.filter(pk=arguments["job"]["id"], kind=kind).exists():
            conveyor.messages.popleft()
            return Runner(arguments["job"])
        conveyor.step(FakeHands())
    raise AssertionError(f"no job of the kind {kind}")


def row(runner: Runner) -> Job:
    return Job.objects.get(pk=runner.job["id"])


def queues(run: Run) -> dict[str, set[str]]:
    """The queues that jobs of each kind were in."""
    found: dict[str, set[str]] = {}
    for kind, queue in Job.objects.filter(run=run).values_list("kind", "queue"):
        found.setdefault(kind, set()).add(queue)
    return found


# ---- which way a build goes


def test_a_build_goes_to_the_host_for_builds_and_all_else_to_the_device(world: World, conveyor: Conveyor) -> None:
    heard("builder", ["build.cuda"])
    run = begin(world)
    conveyor.run(FakeHands())
    found = queues(run)
    assert found.pop("build") == {"build.cuda"}
    assert set(found) >= {"analyse", "check", "time", "profile"}
    assert all(queue == {"run.sm_90"} for queue in found.values())
    run.refresh_from_db()
    assert run.verdict == "verified"


def drained(world: World) -> None:
    hosts.drain("builder", world.owner)


def quarantined(world: World) -> None:
    hosts.quarantine("builder", world.owner, "It is odd.")


def silent(world: World) -> None:
    Row.objects.update(heard_at=timezone.now() - timedelta(minutes=5))


def starting(world: World) -> None:
    hosts.admit("builder", ["build.cuda"])


def without_nvcc(world: World) -> None:
    Row.objects.update(health="Builds for CUDA need nvcc.")


def removed(world: World) -> None:
    hosts.remove("builder", world.owner)


AWAY = [drained, quarantined, silent, starting, without_nvcc, removed]


@pytest.mark.parametrize("away", AWAY)
def test_a_build_goes_to_the_device_while_no_host_for_builds_takes_it(
    world: World, conveyor: Conveyor, away: Callable[[World], None]
) -> None:
    heard("builder", ["build.cuda"])
    away(world)
    run = begin(world)
    until(conveyor, "build")
    assert queues(run)["build"] == {"run.sm_90"}


def test_a_build_for_the_processor_is_its_own_runners(world: World, conveyor: Conveyor) -> None:
    heard("builder", ["build.cuda"])
    run = begin(world, target="cpu")
    until(conveyor, "build")
    assert queues(run)["build"] == {"run.cpu"}


def test_what_an_engineer_has_built_goes_the_same_way(world: World, conveyor: Conveyor) -> None:
    heard("builder", ["build.cuda"])
    run = begin(world)
    chosen, files = options(target="sm_90"), CandidateFiles(files=program("draft"))
    tasks = [measuring(kind, chosen, Source(text="x"), files, 60.0) for kind in ("build", "check")]
    jobs = [jobbook.lend(run.pk, Step(index=3, kind="code"), task, ()) for task in tasks]
    assert [job.queue for job in jobs] == ["build.cuda", "run.sm_90"]


# ---- a host that leaves


@pytest.mark.parametrize("away", AWAY)
def test_a_build_that_waits_is_the_devices_when_the_last_host_for_builds_is_gone(
    world: World, conveyor: Conveyor, away: Callable[[World], None]
) -> None:
    heard("builder", ["build.cuda"])
    begin(world)
    late = until(conveyor, "build")
    Job.objects.update(created_at=timezone.now() - timedelta(seconds=9))
    sweep()
    assert row(late).queue == "build.cuda", "it is there"
    away(world)
    conveyor.messages.clear()
    sweep()
    assert row(late).queue == "run.sm_90"
    [(_, queue, message)] = [sent for sent in conveyor.messages if sent[0] == TASK]
    assert (queue, message["job"]["id"]) == ("run.sm_90", late.job["id"])
    # The message that was left behind is of no use to a host for builds that comes again.
    secret = hosts.admit("builder", ["build.cuda"])
    assert late.post("claim", {"worker": "builder"}, secret=secret)[0] == 410
    assert Runner(message["job"]).claim("device")


def test_a_build_stays_while_another_host_for_builds_is_there(world: World, conveyor: Conveyor) -> None:
    heard("builder", ["build.cuda"])
    heard("other", ["build.cuda"])
    begin(world)
    waiting = until(conveyor, "build")
    drained(world)
    Job.objects.update(created_at=timezone.now() - timedelta(seconds=9))
    sweep()
    assert row(waiting).queue == "build.cuda"


def test_a_build_whose_host_died_over_it_is_the_devices(world: World, conveyor: Conveyor) -> None:
    heard("builder", ["build.cuda"])
    begin(world)
    runner = until(conveyor, "build")
    assert runner.claim("builder")
    silent(world)
    past = timezone.now() - timedelta(seconds=9)
    Job.objects.filter(pk=row(runner).pk).update(lease_expires=past, created_at=past)
    sweep()
    assert (row(runner).queue, row(runner).state) == ("run.sm_90", JobState.QUEUED)


# ---- the library


def send(
    runner: Runner, data: bytes = LIBRARY, digest: str = "", claim: str | None = None, name: str = "libkernels.so"
) -> tuple[int, dict[str, Any]]:
    answer = Client().post(
        f"/jobs/{runner.job['id']}/artifacts/{name}",
        data,
        content_type="application/octet-stream",
        headers={
            "Authorization": f"Bearer {runner.job['token']}",
            "X-Claim": runner.claim_token if claim is None else claim,
            "X-Sha256": digest or hashlib.sha256(data).hexdigest(),
        },
    )
    return answer.status_code, answer.json()


def fetch(runner: Runner, claim: str = "") -> tuple[int, bytes]:
    headers = {"Authorization": f"Bearer {runner.job['token']}", "X-Claim": claim or runner.claim_token}
    answer = Client().get(f"/jobs/{runner.job['id']}/library", headers=headers)
    return answer.status_code, answer.content


def built(world: World, conveyor: Conveyor) -> Run:
    """A run whose first candidate a host for builds has built and sent."""
    heard("builder", ["build.cuda"])
    run = begin(world)
    runner = until(conveyor, "build")
    assert runner.claim("builder")
    assert runner.told["keeps"] is True
    assert runner.told["library"] is None
    assert send(runner)[0] == 200
    assert runner.report(BUILT.model_dump(mode="json"))[0] == 200
    return run


@pytest.mark.parametrize("kind", ["check", "time", "profile"])
def test_the_device_is_told_of_the_library_and_gets_it(world: World, conveyor: Conveyor, kind: str) -> None:
    run = built(world, conveyor)
    while not row(device := until(conveyor, kind)).candidate:  # the reference is measured, too, and has no library
        device.work(FakeHands())
        assert device.told["library"] is None
    assert device.claim("device")
    assert device.told["keeps"] is False
    named = {"sha256": hashlib.sha256(LIBRARY).hexdigest(), "report": BUILT.model_dump(mode="json")}
    assert device.told["library"] == named
    assert fetch(device) == (200, LIBRARY)
    assert fetch(device, claim="somebody")[0] == 410
    assert run.jobs.filter(kind="build").count() == 1


def test_a_library_is_lent_within_its_run_and_for_its_kernels_alone(world: World, conveyor: Conveyor) -> None:
    built(world, conveyor)
    device = until(conveyor, "check")
    assert device.claim("device")
    other = CandidateFiles(files=program("other"))
    task = row(device).task | {"candidate": other.model_dump(mode="json")}
    Job.objects.filter(pk=device.job["id"]).update(task=task)
    assert fetch(device)[0] == 404
    conveyor.messages.clear()
    begin(world)  # the same kernels, in another run
    foreign = until(conveyor, "check")
    assert row(foreign).run_id != row(device).run_id
    assert foreign.claim("device")
    assert foreign.told["library"] is None
    assert fetch(foreign)[0] == 404


def test_a_library_with_another_digest_is_refused_with_a_sentence(world: World, conveyor: Conveyor) -> None:
    heard("builder", ["build.cuda"])
    begin(world)
    runner = until(conveyor, "build")
    assert runner.claim("builder")
    status, answer = send(runner, digest=hashlib.sha256(b"another").hexdigest())
    assert status == 400
    assert answer["error"] == "The file's bytes do not have the digest that X-Sha256 names: it is not stored. Send it again."
    assert not Artifact.objects.exists()


def test_only_who_has_the_job_sends_its_library(world: World, conveyor: Conveyor) -> None:
    heard("builder", ["build.cuda"])
    begin(world)
    runner = until(conveyor, "build")
    assert send(runner, claim="somebody")[0] == 410
    assert runner.claim("builder")
    assert runner.report(BUILT.model_dump(mode="json"))[0] == 200
    assert send(runner)[0] == 410, "a job that is done takes nothing"


def test_a_host_that_was_removed_sends_nothing_and_what_it_sent_is_not_used(world: World, conveyor: Conveyor) -> None:
    heard("builder", ["build.cuda"])
    heard("other", ["build.cuda"])
    begin(world)
    runner = until(conveyor, "build")
    assert runner.claim("builder")
    assert send(runner, b"a poisoned one")[0] == 200
    removed(world)
    for claim in (runner.claim_token, ""):  # an empty one is what the job was left with
        assert send(runner, claim=claim, name="more.bin")[0] == 410
    second = Runner(runner.job)
    assert second.claim("other")
    assert send(second)[0] == 200
    assert second.report(BUILT.model_dump(mode="json"))[0] == 200
    device = until(conveyor, "check")
    assert device.claim("device")
    assert fetch(device) == (200, LIBRARY)


@pytest.mark.parametrize("away", [quarantined, removed])
def test_what_a_host_built_is_not_lent_once_it_is_believed_no_more(
    world: World, conveyor: Conveyor, away: Callable[[World], None]
) -> None:
    built(world, conveyor)
    away(world)
    device = until(conveyor, "check")
    assert device.claim("device")
    assert device.told["library"] is None
    assert fetch(device)[0] == 404


def test_a_host_for_builds_makes_no_verdict(world: World, conveyor: Conveyor) -> None:
    heard("builder", ["build.cuda"])
    begin(world)
    runner = until(conveyor, "build")
    assert runner.claim("builder")
    assert send(runner)[0] == 200
    assert runner.report(CheckReport(verdict=Verdict.VERIFIED).model_dump(mode="json"))[0] == 200
    assert row(runner).state == JobState.FAILED


def test_a_build_on_the_device_itself_is_not_sent(world: World, conveyor: Conveyor) -> None:
    begin(world)
    runner = until(conveyor, "build")
    assert runner.claim("device")
    assert runner.told["keeps"] is False


def test_a_library_that_was_lost_is_missing_and_no_fault(world: World, conveyor: Conveyor) -> None:
    built(world, conveyor)
    device = until(conveyor, "check")
    assert device.claim("device")
    stored = Artifact.objects.get()
    stored.file.storage.delete(stored.file.name)
    assert fetch(device)[0] == 404


def test_libraries_go_a_day_after_their_run(world: World, conveyor: Conveyor) -> None:
    run = built(world, conveyor)
    conveyor.run(FakeHands())
    forget()
    assert Artifact.objects.count() == 1
    Run.objects.filter(pk=run.pk).update(ended_at=timezone.now() - libraries.KEPT)
    stored = Artifact.objects.get().file
    forget()
    assert not Artifact.objects.exists()
    assert not stored.storage.exists(stored.name)
