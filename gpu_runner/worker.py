"""The Celery worker around the hands: one process per device, one job at a time. The only module here that knows Celery.

`python -m gpu_runner.serve` starts it, for the account that it got by joining a site, and it needs nothing else: no database,
no key. A message names a job; whether it is to be had, the site says, and the right to report comes with it.
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from celery import Celery, bootsteps
from celery.exceptions import SoftTimeLimitExceeded
from celery.signals import worker_process_init
from kombu.entity import Exchange, Queue
from pydantic import TypeAdapter, ValidationError

from gpu_runner import libraries
from gpu_runner.broker import BUILD_QUEUE, PRESENT_EVERY_S, TASK, celery_settings
from gpu_runner.build_commands import compiler_version
from gpu_runner.config import config
from gpu_runner.contracts import BuildReport, Progress, Task
from gpu_runner.device import device_info, device_of
from gpu_runner.hands import Cancelled, Hands, HandsError
from gpu_runner.local import LocalHands
from gpu_runner.remote import Account, Gone, JobClient, NotTaken, present

log = logging.getLogger(__name__)

app = Celery("gpu_runner")

_TASK: TypeAdapter[Task] = TypeAdapter(Task)
_PR_SET_PDEATHSIG = 1
AWAY_S = 1.0  # between two words while the site is away: a runner is often started with it
LOOK_S = 0.5  # how often the process that takes messages looks whether it is still to take some


@lru_cache(maxsize=1)
def hands() -> LocalHands:
    """The hands of this process, kept: what they have imported and measured is what makes a step quick."""
    return LocalHands()


class _Board:
    """A page of memory on which the process that works leaves word for the one that takes messages."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, 4096)

    def refused(self) -> None:
        """The site does not let this runner take jobs at this moment."""
        self._page[0] = 1

    def was_refused(self) -> bool:
        """Once per word."""
        said, self._page[0] = bool(self._page[0]), 0
        return said

    def unwell(self, sentence: str) -> None:
        self._page[1:] = sentence.encode()[:4000].ljust(4095, b"\0")

    @property
    def health(self) -> str:
        """Why this machine cannot work; empty where it can."""
        return self._page[1:].rstrip(b"\0").decode(errors="ignore")


_board = _Board()


@worker_process_init.connect
def _begin(**_: object) -> None:
    """In the process that works: it ends with the one that takes messages, and has sandboxes ready before the first job.

    Builds need no torch, and a host for builds alone may have none.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        if set(app.conf["runner_account"].queues) != {BUILD_QUEUE}:
            hands().warm()
        _board.unwell("")
    except HandsError as trouble:  # each job will say so to the person who waits for it
        _board.unwell(str(trouble))
        log.warning("%s", trouble)


@app.task(name=TASK)
def perform(job: dict[str, Any]) -> None:
    """One job: {"id", "token"}. Whoever takes messages of a queue can put some there, too; what to do, the site says."""
    account: Account = app.conf["runner_account"]
    # The address is that of the site which this runner joined, never one that a message could name.
    client = JobClient(f"{account.site}/jobs/{int(job['id'])}", str(job["token"]), account.name, account.secret)
    if not client.claim():
        if client.refused:
            _board.refused()
            time.sleep(2 * LOOK_S)  # no further message until the other process has learnt of it
        return
    began = time.monotonic()
    try:
        work(client.task, client, hands(), began)
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
        order = _TASK.validate_python(task)
        libraries.take_over(client, order, say)
        done = with_hands.perform(order, say, client.cancelled.is_set)
        if isinstance(done, BuildReport):
            libraries.hand_over(client, done)
        report = done.model_dump(mode="json")
    except (Cancelled, Gone):
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


class Presence:
    """Says that this runner is there, how it is, and hears what it is to do. A thread of its own: the site may be slow."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.about, self.unfit = about(account.queues)
        self.takes = True
        self.removed = ""
        self._wake = threading.Event()

    def begin(self) -> None:
        threading.Thread(target=self._run, name="presence", daemon=True).start()

    def now(self) -> None:
        self._wake.set()

    def tell(self) -> bool:
        """Say it once; whether the site heard it. What it cannot be told now is told the next time."""
        try:
            state = present(self.account, {"about": self.about, "health": _board.health or self.unfit, "use": use()})
        except NotTaken as sentence:
            self.takes, self.removed = False, str(sentence)
        except OSError as trouble:
            log.info("the site could not be told that this runner is there: %s", trouble)
            return False
        else:
            self.takes = state == "active"
        return True

    def _run(self) -> None:
        while not self.removed:
            heard = self.tell()
            self._wake.wait(PRESENT_EVERY_S if heard else AWAY_S)
            self._wake.clear()
        log.error("%s", self.removed)
        os.kill(os.getpid(), signal.SIGTERM)  # Celery's way to stop: what is under way ends first


class Takes(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery has no types
    """Takes messages while the site wants it to. A step of the consumer, as that starts again with each connection."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, consumer: Any) -> None:
        self._again = consumer.timer.call_repeatedly(LOOK_S, self._look, (consumer,))

    def stop(self, consumer: Any) -> None:
        self._again.cancel()

    def _look(self, consumer: Any) -> None:
        presence: Presence = app.conf["runner_presence"]
        if _board.was_refused():
            presence.takes = False
            presence.now()
        for queue in presence.account.queues:
            taking = consumer.task_consumer.consuming_from(queue)
            if presence.takes and not taking:
                consumer.add_task_queue(queue)
            elif taking and not presence.takes:
                consumer.cancel_task_queue(queue)


def about(queues: Sequence[str]) -> tuple[dict[str, Any], str]:
    """What this machine is: the device behind the first target that it serves, with driver and versions. And why it cannot
    serve that; empty where it can. A host for builds needs nvcc, and its release is what is said of it."""
    nvcc = config().nvcc
    if BUILD_QUEUE in queues and not compiler_version(nvcc):
        lacks = f"Builds for CUDA need the compiler {nvcc}, which was not found on this runner; install it, or set RUNNER_NVCC."
        return device_info("cpu").model_dump(mode="json"), lacks
    if set(queues) == {BUILD_QUEUE}:
        release = compiler_version(nvcc).splitlines()[-1]
        return device_info("cpu").model_copy(update={"compiler": release}).model_dump(mode="json"), ""
    targets = [queue.removeprefix("run.") for queue in queues if queue.startswith("run.")]
    target = targets[0] if targets else "cpu"
    try:
        device_of(target)
    except HandsError as trouble:
        return device_info(target).model_dump(mode="json"), str(trouble)
    return device_info(target).model_dump(mode="json"), ""


class _Rates(ctypes.Structure):
    """nvmlUtilization_t: per cent of the time since the driver's last sample."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    """nvmlMemory_t, in bytes."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def use() -> dict[str, float]:
    """How busy the machine is: `load` (of one minute, per core) and, with an NVIDIA card, `gpu` and `gpu_memory`, 0 to 1."""
    said = {"load": round(os.getloadavg()[0] / (os.cpu_count() or 1), 3)}
    try:
        nvml, card = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
    except OSError:
        return said
    rates, memory = _Rates(), _Memory()
    if nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card)) == 0:
        if nvml.nvmlDeviceGetUtilizationRates(card, ctypes.byref(rates)) == 0:
            said["gpu"] = rates.gpu / 100
        if nvml.nvmlDeviceGetMemoryInfo(card, ctypes.byref(memory)) == 0 and memory.total:
            said["gpu_memory"] = round(memory.used / memory.total, 3)
        nvml.nvmlShutdown()
    return said


def serve(account: Account) -> int:
    """Take the jobs of this account's queues until told to stop. 3 when the site has removed this runner."""
    # Jobs are isolated by the sandbox, which gives up root itself where the runner has it.
    warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")
    app.conf.update(celery_settings(account.broker or config().broker_url, account.user or account.name))
    presence = Presence(account)
    presence.tell()
    if presence.removed:
        print(presence.removed, file=sys.stderr)
        return 3
    app.conf["runner_account"] = account  # before the fork: the process that works inherits it
    app.conf["runner_presence"] = presence
    # Not declared, as that would bind them to an exchange: who may bind could have others' messages copied into its own queue.
    app.conf.task_queues = [Queue(queue, Exchange("stitchweb"), routing_key=queue, no_declare=True) for queue in account.queues]
    app.steps["consumer"].add(Takes)
    presence.begin()
    try:
        app.worker_main(
            [
                *("--quiet", "worker", "--concurrency=1", "--pool=prefork"),
                *(f"--hostname={account.name}", "--loglevel=WARNING"),
                *("--without-gossip", "--without-mingle", "--without-heartbeat"),
            ]
        )
    except SystemExit as end:
        return 3 if presence.removed else int(end.code or 0)
    return 3 if presence.removed else 0
