"""The one thread that starts sandboxes. The kernel ties a child's death signal to the *thread* that started it: started from a
thread that comes and goes, sandboxes would die with it.
"""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import Future

_Job = tuple[Sequence[str], dict[str, str], int, Sequence[int], "Future[subprocess.Popen[bytes]]"]
_lock = threading.Lock()
_jobs: queue.SimpleQueue[_Job] | None = None


def _work(jobs: queue.SimpleQueue[_Job]) -> None:
    while True:
        argv, env, output, fds, future = jobs.get()
        try:
            future.set_result(
                subprocess.Popen(
                    argv,
                    env=env,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    close_fds=True,
                    pass_fds=tuple(fds),
                    start_new_session=True,
                )
            )
        except BaseException as error:
            future.set_exception(error)
        del future


def start(argv: Sequence[str], env: dict[str, str], output: int, fds: Sequence[int]) -> subprocess.Popen[bytes]:
    """Starts `argv` with exactly this environment and these descriptors, its output going to `output`."""
    global _jobs
    with _lock:
        if _jobs is None:
            _jobs = queue.SimpleQueue()
            threading.Thread(target=_work, args=(_jobs,), name="stitchweb-spawner", daemon=True).start()
        jobs = _jobs
    future: Future[subprocess.Popen[bytes]] = Future()
    jobs.put((argv, env, output, fds, future))
    return future.result()


def _forget() -> None:
    # Threads do not survive a fork (Celery's prefork pool): the child process starts its own.
    global _jobs, _lock
    _jobs, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)
