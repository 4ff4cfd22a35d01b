"""`LocalHands`: every task done in this process tree, on this machine, one at a time."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable

from gpu_runner import ahead
from gpu_runner.analyse import analyse
from gpu_runner.build import build
from gpu_runner.check import perform_check
from gpu_runner.contracts import (
    AnalyseTask,
    Analysis,
    BuildTask,
    CheckReport,
    CheckTask,
    Label,
    ProfileTask,
    Progress,
    Report,
    Task,
    TimeTask,
    TimingReport,
)
from gpu_runner.device import device_info, device_of
from gpu_runner.hands import ProgressSink
from gpu_runner.job import Job
from gpu_runner.profile import perform_profile
from gpu_runner.sandbox import template
from gpu_runner.session import Session
from gpu_runner.timing import perform_timing


def _silent(_: Progress) -> None:
    return


def _never() -> bool:
    return False


class LocalHands:
    """The hands of this machine. Keeps references and the judge between tasks; close it, or use it as a context manager.

    `whole_runs`: all tasks of a run come here, one run after another, so what its end needs can be begun after its analysis.
    """

    def __init__(self, whole_runs: bool = False) -> None:
        self._whole_runs = whole_runs
        self._lock = threading.Lock()
        self._session = Session()
        atexit.register(self.close)

    def __enter__(self) -> LocalHands:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process kept. Tasks may still be given afterwards; they start their own."""
        self._session.close()

    def warm(self) -> None:
        """Have torch imported while there is time."""
        template.warm()

    def perform(self, task: Task, progress: ProgressSink = _silent, cancelled: Callable[[], bool] = _never) -> Report:
        """See `hands.Hands`."""
        with self._lock:
            if isinstance(task, BuildTask):
                return build(task, progress, cancelled).model_copy(update={"device": device_info(task.target)})
            started = time.monotonic()
            device, nodes = device_of(task.target)
            job = Job(device, task.limits, task.mode, task.precision, progress, cancelled, nodes)
            try:
                report = self._measure(job, task)
            except BaseException:
                # Whatever went wrong, a process in an unknown state must not serve the next task.
                self._session.close()
                raise
            return _signed(report, task.target, time.monotonic() - started)

    def _measure(self, job: Job, task: AnalyseTask | CheckTask | TimeTask | ProfileTask) -> Report:
        if isinstance(task, AnalyseTask):
            ahead.end(self._session, keep=self._session.key(job, task.source))
            analysis = analyse(job, task, self._session)
            if self._whole_runs:
                ahead.begin(job, task, analysis, self._session)
            return analysis
        if isinstance(task, CheckTask):
            return perform_check(job, task, self._session)
        if isinstance(task, TimeTask):
            return perform_timing(job, task, self._session)
        return perform_profile(job, task, self._session)


def _signed(report: Report, target: str, seconds: float) -> Report:
    """The report with its device, its duration, and the banner of a machine without a boundary."""
    info = device_info(target)
    update: dict[str, object] = {"device": info}
    update["wall_s" if isinstance(report, Analysis) else "seconds"] = round(seconds, 3)
    if info.sandbox == "unsafe" and isinstance(report, Analysis | CheckReport | TimingReport):
        update["labels"] = (*report.labels, Label.UNSAFE_SANDBOX)
    return report.model_copy(update=update)
