"""The service as a process of its own: what runs in it, and how it is started and ended."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from agents.training.service.client import Client, NoService
from agents.training.service.contracts import Terms
from agents.training.service.measure import Measurer
from agents.training.service.price import Pricer
from agents.training.service.raters import Rater
from agents.training.service.server import serving
from gpu_runner.hands import Hands

START_S, END_S = 60.0, 20.0


def local_hands() -> Hands:
    """Hands of this machine."""
    from gpu_runner.local import LocalHands  # starts a pool of processes

    return LocalHands()


def serve(door: Path, terms: Terms, rater: Rater | None, unix: Path | None, make: Callable[[], Hands] = local_hands) -> None:
    """Serve until a signal, or until standard input ends where it is a pipe: its writer is who started this, and however that
    one ends, nothing stays behind. Writes the door file and takes it away again."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    ends_with_input(ended.set)
    pricer = Pricer(terms, Measurer(terms, make), rater)
    with serving(pricer, unix) as opened:
        opened.write(door)
        print(f"The reward service is at {opened.address}; its token is in {door}.", file=sys.stderr, flush=True)
        try:
            ended.wait()
        finally:
            door.unlink(missing_ok=True)


def ends_with_input(end: Callable[[], object]) -> None:
    """Call `end` from a thread when standard input ends; never where it is a terminal or not there."""
    try:
        if os.isatty(0) or not _is_pipe(0):
            return
    except OSError:
        return

    def watch() -> None:
        with suppress(OSError):
            while os.read(0, 4096):
                pass
        end()

    threading.Thread(target=watch, name="ends-with-input", daemon=True).start()


def _is_pipe(fd: int) -> bool:
    return stat.S_ISFIFO(os.fstat(fd).st_mode)


@contextmanager
def started(
    folder: Path, arguments: Sequence[str], cancelled: Callable[[], bool] = lambda: False, devices: str = ""
) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """The service as a child: the path of its door, and its process. `arguments` are of `python -m agents.training serve`; what
    it prints goes to `service.log` in the folder; `devices`: its CUDA_VISIBLE_DEVICES, empty: ours. Raises NoService with its
    last words where it does not start."""
    door, log = folder / "service.json", folder / "service.log"
    door.unlink(missing_ok=True)
    seen = ["env", f"CUDA_VISIBLE_DEVICES={devices}"] if devices else []
    command = [*seen, sys.executable, "-m", "agents.training", "serve", "--door", str(door), *arguments]
    with log.open("ab") as out:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out, start_new_session=True)
    try:
        _wait(door, child, log, cancelled)
        yield door, child
    finally:
        end(child)


def _wait(door: Path, child: subprocess.Popen[bytes], log: Path, cancelled: Callable[[], bool]) -> None:
    limit = time.monotonic() + START_S
    while time.monotonic() < limit and not cancelled():
        if child.poll() is not None:
            said = log.read_text(errors="replace").strip().splitlines()
            raise NoService(said[-1] if said else f"The reward service ended with status {child.returncode} and no word.")
        if door.exists():
            Client.at(door).health()
            return
        time.sleep(0.05)
    raise NoService(f"The reward service did not start within {START_S:.0f} s; look at {log}.")


def end(child: subprocess.Popen[bytes], patience_s: float = END_S) -> None:
    """End a child of ours and its process group: first asked, then told."""
    if child.stdin:
        with suppress(OSError):
            child.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, number)
            with suppress(subprocess.TimeoutExpired):
                child.wait(patience_s)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)  # what it left behind in its group
    child.wait()
