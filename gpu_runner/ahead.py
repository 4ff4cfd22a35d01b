"""Baselines compiled before anybody asks for them: in the background, once a program is known to be fit for a run.

Every run times the modes of torch.compile at its end, with a program of ours or without one, and to compile them takes longer
than all else; until then the device and most cores have little to do. For hands that see a whole run, on a GPU: on a CPU the
compiler would take the cores from those who measure.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Unfinished
from contextlib import suppress

from gpu_runner import baselines, turns
from gpu_runner.compiled import Compiled, said
from gpu_runner.contracts import AnalyseTask, Analysis, Label, Source
from gpu_runner.device import device_info
from gpu_runner.hands import Cancelled
from gpu_runner.job import Job
from gpu_runner.session import Session
from gpu_runner.timed import EAGER

log = logging.getLogger(__name__)

WALL_S = 300.0  # for all modes together, without what they wait for
_LOOK_S = 0.2


class Ahead:
    """The modes of one program, being compiled."""

    def __init__(self, job: Job, source: Source, session: Session, modes: Sequence[str]) -> None:
        self.modes = tuple(modes)
        self._stopped = threading.Event()
        limits = job.limits.model_copy(update={"wall_s": WALL_S})
        own = Job(job.device, limits, job.mode, job.precision, lambda progress: None, self._stopped.is_set, job.devices)
        self._made = Compiled(own, source, session)
        executor = ThreadPoolExecutor(1, thread_name_prefix="stitchweb-ahead")
        self._future: Future[None] = executor.submit(self._made.run, self.modes)
        executor.shutdown(wait=False)

    def result(self, job: Job) -> Compiled | None:
        """What it came to, for `job` from here on; None where it broke. Raises Cancelled when the job is cancelled."""
        job.stage(said(self.modes))
        began = time.monotonic()
        while True:
            with suppress(Unfinished):
                if self._future.exception(timeout=_LOOK_S) is not None:
                    return None
                break
            if job.cancelled():
                self.stop()
                raise Cancelled("The job was cancelled.")
        job.deadline += time.monotonic() - began
        for arm in self._made.arms.values():
            arm.job = job
        return self._made

    def stop(self) -> None:
        """End it, and wait for its end. Its processes are the session's."""
        cancelled = not self._future.done()
        self._stopped.set()
        error = self._future.exception()
        if error is not None and not (isinstance(error, Cancelled) and cancelled):
            log.error("the baselines could not be compiled in the background", exc_info=error)


def begin(job: Job, task: AnalyseTask, report: Analysis, session: Session) -> None:
    """Compile the baselines of a program that was just analysed, unless nobody will ask for them."""
    modes = [mode for mode in task.protocol.arms if mode != EAGER]
    unfit = report.refusal is not None or report.nulls or {Label.DEGENERATE, Label.STOCHASTIC} & set(report.labels)
    program = session.key(job, task.source)
    if unfit or not modes or job.device == "cpu" or turns.compilers() == 1 or program in session.background:
        return
    if baselines.load(baselines.key(program, task.protocol, device_info(task.target))) is None:
        session.background[program] = Ahead(job, task.source, session, modes)


def end(session: Session, keep: str = "") -> None:
    """End what is compiled of any program but `keep`, and its processes: another run has begun."""
    for program in [program for program in session.background if program != keep]:
        session.background.pop(program).stop()
        session.forget_modes(program)


def taken(job: Job, source: Source, session: Session, modes: Sequence[str]) -> Compiled | None:
    """What was compiled ahead, once it is done; None where nothing was. Raises Cancelled."""
    program = session.key(job, source)
    one = session.background.pop(program, None)
    made = one.result(job) if isinstance(one, Ahead) and one.modes == tuple(modes) else None
    if one is not None and made is None:
        one.stop()
        session.forget_modes(program)  # what broke off may have left a process that has ended
    return made
