"""The Celery worker around the hands: one process per device, one job at a time. The only module here that knows Celery.

`python -m gpu_runner.worker run.cpu` serves a queue. It needs the broker's address (`REDIS_URL`) and nothing else: no database,
no key. Where to report, and the right to do so, come with each job.
"""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import re
import signal
import socket
import sys
import time
from functools import lru_cache
from typing import Any

from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded
from celery.signals import worker_process_init
from kombu import Queue
from pydantic import TypeAdapter, ValidationError

from gpu_runner.broker import TASK, celery_settings
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
_QUEUE = re.compile(r"^(?:run\.(?:cpu|sm_\d{2,3}a?)|build\.cuda)$")


@lru_cache(maxsize=1)
def hands() -> LocalHands:
    """The hands of this process, kept: their pool of warm sandboxes is what makes a step quick."""
    return LocalHands()


@worker_process_init.connect  # type: ignore[untyped-decorator]
def _begin(**_: object) -> None:
    """In the process that works: it ends with the one that takes messages, and has sandboxes ready before the first job."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        hands().warm()
    except HandsError as trouble:  # each job will say so to the person who waits for it
        log.warning("%s", trouble)


@app.task(name=TASK)  # type: ignore[untyped-decorator]  Celery ships no types
def perform(job: dict[str, Any]) -> None:
    """One job: {"id", "endpoint", "token", "task"}."""
    client = JobClient(job["endpoint"], job["token"], f"{socket.gethostname()}:{os.getpid()}")
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


def main(arguments: list[str]) -> int:
    """Serve queues until told to stop. Exit status 2 for a queue that cannot exist."""
    parser = argparse.ArgumentParser(prog="python -m gpu_runner.worker", description="Serves jobs of one device.")
    parser.add_argument("queue", nargs="+", help="run.cpu, run.sm_90, … or build.cuda")
    parser.add_argument("--name", default="runner", help="told to people when a step waits for it")
    options = parser.parse_args(arguments)
    wrong = [queue for queue in options.queue if not _QUEUE.match(queue)]
    if wrong:
        print(
            f"There is no queue {wrong[0]!r}: use run.cpu, run.sm_NN for a CUDA architecture, or build.cuda.", file=sys.stderr
        )
        return 2
    if not config().broker_url:
        print("REDIS_URL is not set: a worker takes its jobs from the broker of the site it serves.", file=sys.stderr)
        return 2
    app.conf.task_queues = [Queue(queue) for queue in options.queue]
    app.worker_main(
        [
            *("worker", "--concurrency=1", "--pool=prefork", f"--hostname={options.name}@%h", "--loglevel=WARNING"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ]
    )
    return 0


if __name__ == "__main__":
    # Celery's child imports this module by name; running its `main` keeps one application instead of two.
    from gpu_runner.worker import main as run

    raise SystemExit(run(sys.argv[1:]))
