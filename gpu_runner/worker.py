"""The Celery worker around the hands: one process per device, one job at a time. The only module here that knows Celery.

`python -m gpu_runner.serve run.cpu` starts it. It needs the broker's address (`REDIS_URL`) and nothing else: no database,
no key. Where to report, and the right to do so, come with each job.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import time
import warnings
from functools import lru_cache
from typing import Any

from celery import Celery, bootsteps
from celery.exceptions import SoftTimeLimitExceeded
from celery.signals import worker_process_init
from kombu.entity import Exchange, Queue
from kombu.exceptions import OperationalError
from pydantic import TypeAdapter, ValidationError

from gpu_runner.broker import AGENTS_QUEUE, PRESENT, PRESENT_EVERY_S, TASK, celery_settings, runner_name
from gpu_runner.config import config
from gpu_runner.contracts import Progress, Task
from gpu_runner.hands import Cancelled, Hands, HandsError
from gpu_runner.local import LocalHands
from gpu_runner.remote import JobClient

log = logging.getLogger(__name__)

app = Celery("gpu_runner")
app.conf.update(celery_settings(config().broker_url))

_TASK: TypeAdapter[Task] = TypeAdapter(Task)
_PR_SET_PDEATHSIG = 1


@lru_cache(maxsize=1)
def hands() -> LocalHands:
    """The hands of this process, kept: what they have imported and measured is what makes a step quick."""
    return LocalHands()


@worker_process_init.connect
def _begin(**_: object) -> None:
    """In the process that works: it ends with the one that takes messages, and has sandboxes ready before the first job."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        hands().warm()
    except HandsError as trouble:  # each job will say so to the person who waits for it
        log.warning("%s", trouble)


@app.task(name=TASK)
def perform(job: dict[str, Any]) -> None:
    """One job: {"id", "endpoint", "token", "task"}."""
    client = JobClient(job["endpoint"], job["token"], app.conf.get("runner_name", f"pid {os.getpid()}"))
    if not client.claim():
        return
    began = time.monotonic()
    try:
        work(job["task"], client, hands(), began)
    finally:
        client.close()


def work(task: dict[str, Any], client: JobClient, with_hands: Hands, began: float) -> None:
    """Have a claimed job done and report it. Whatever happens is reported: a job without an answer would be given out again."""
    report: dict[str, Any] | None = None
    error = ""

    def say(progress: Progress) -> None:
        if client.cancelled.is_set():
            raise Cancelled
        client.say(progress)

    try:
        report = with_hands.perform(_TASK.validate_python(task), say, client.cancelled.is_set).model_dump(mode="json")
    except Cancelled:
        error = "The job was cancelled."
    except HandsError as trouble:
        error = str(trouble)
    except ValidationError as trouble:
        error = f"This runner does not understand the task; update it. {trouble.error_count()} fields differ."
    except SoftTimeLimitExceeded:
        error = "The step ran past the worker's own time limit."
    except Exception as trouble:
        log.exception("the hands failed")
        error = f"The runner failed: {type(trouble).__name__}: {trouble}"
    if not client.gone:
        client.report(report, error, time.monotonic() - began)


class Presence(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery has no types
    """Says that this runner is there and what it serves. A step of the consumer, as that starts again with each connection."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, consumer: Any) -> None:
        self._tell()
        consumer.timer.call_repeatedly(PRESENT_EVERY_S, self._tell)

    def _tell(self) -> None:
        said = {"name": app.conf["runner_name"], "queues": [queue.name for queue in app.conf.task_queues]}
        try:
            # Nobody has to hear it: while no agent worker is there, the last word is enough.
            app.send_task(PRESENT, kwargs=said, queue=_queue(AGENTS_QUEUE), expires=PRESENT_EVERY_S, retry=False)
        except OperationalError as trouble:  # this timer must outlive it
            log.warning("the site could not be told that this runner is there: %s", trouble)


def _queue(name: str) -> Queue:
    return Queue(name, Exchange("stitchweb"), routing_key=name)


def serve(queues: list[str], name: str) -> None:
    """Take jobs from these queues until told to stop."""
    # Jobs are isolated by the sandbox, which gives up root itself where the runner has it.
    warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")
    app.conf["runner_name"] = runner_name(name)  # before the fork: the process that works inherits it
    app.conf.task_queues = [_queue(queue) for queue in queues]
    app.steps["consumer"].add(Presence)
    app.worker_main(
        [
            *("--quiet", "worker", "--concurrency=1", "--pool=prefork", f"--hostname={name}@%h", "--loglevel=WARNING"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ]
    )
