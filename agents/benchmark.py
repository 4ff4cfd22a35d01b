"""Many programs in a given time, as many at once as there are hands: one result line each, told the moment it is known."""

from __future__ import annotations

import json
import logging
import queue
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from agents.blobs import MemoryBlobs
from agents.headless import optimize
from agents.reading import Unreadable, header, read_program
from agents.result import line_of, refused_line
from agents.state import Options
from agents.summary import Line
from gpu_runner import turns
from gpu_runner.contracts import Progress, Report, Task
from gpu_runner.hands import Hands

log = logging.getLogger(__name__)

REDONE = frozenset({"failed", "cancelled"})  # verdicts that say nothing of the program: a resumed benchmark tries it again
LEAST_S = 10.0  # below this share of time nothing can be measured


def programs(root: Path) -> list[Path]:
    """Every `*.py` below `root`, sorted by path; hidden folders and caches are no programs."""

    def hidden(path: Path) -> bool:
        return any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(root).parts)

    return sorted(path for path in root.rglob("*.py") if path.is_file() and not hidden(path))


def read_lines(path: Path) -> list[Line]:
    """The lines of a results file. One that was cut off by a kill is left out."""
    lines: list[Line] = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        if isinstance(line, dict) and "file" in line and "verdict" in line:
            lines.append(line)
    return lines


def keep_done(path: Path) -> set[str]:
    """Prepares a results file for going on: lines worth keeping stay, the rest goes. The files that are done."""
    done = [line for line in read_lines(path) if line["verdict"] not in REDONE]
    fresh = path.with_name(path.name + ".part")
    fresh.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in done), encoding="utf-8")
    fresh.replace(path)
    return {str(line["file"]) for line in done}


class Clocked:
    """A program's hands, and where its time went."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self.seconds: dict[str, float] = {}  # by the kind of a task; "waiting": for the device, for a place to compile

    def perform(
        self, task: Task, progress: Callable[[Progress], None] = lambda p: None, cancelled: Callable[[], bool] = lambda: False
    ) -> Report:
        """See `gpu_runner.hands.Hands`."""
        began = time.monotonic()
        with turns.clocked() as waits:
            try:
                return self._hands.perform(task, progress, cancelled)
            finally:
                self._add("waiting", sum(waits))
                self._add(task.kind, time.monotonic() - began - sum(waits))

    def _add(self, kind: str, seconds: float) -> None:
        self.seconds[kind] = self.seconds.get(kind, 0.0) + seconds

    @property
    def spent(self) -> dict[str, float]:
        """`seconds`, rounded, for a result line."""
        return {kind: round(seconds, 2) for kind, seconds in self.seconds.items()}


def benchmark(
    root: Path,
    todo: list[Path],
    options: Options,
    seconds: float,
    hands: Sequence[Hands],
    say: Callable[[str], None] = lambda text: None,
    cancelled: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Line]:
    """One line per program of `todo`, as each is done, in `seconds` of wall clock in all.

    As many programs are under way as there are `hands`, which keep the device in order among themselves. They are begun in
    order, each with an equal share of the time that is left; what it does not use goes to those after it. A program that cannot
    be read, does not work or breaks this process' own code gets a line that says so. Once `cancelled()` turns true no further
    program is begun.
    """
    until = clock() + seconds
    free = queue.SimpleQueue[Hands]()
    for one in hands:
        free.put(one)
    waiting = list(enumerate(todo))
    with ThreadPoolExecutor(len(hands), thread_name_prefix="program") as pool:
        under_way: set[Future[Line]] = set()

        def begin() -> None:
            number, path = waiting.pop(0)
            name = path.relative_to(root).as_posix()
            share = (until - clock()) * min(len(hands), len(waiting) + 1) / (len(waiting) + 1)
            say(f"[{number + 1}/{len(todo)}] {name}, {max(0.0, share):.0f} s")

            def work() -> Line:
                mine = free.get()
                try:
                    clocked = Clocked(mine)
                    return _one(path, name, options, share, clocked, cancelled, clock) | {"seconds": clocked.spent}
                finally:
                    free.put(mine)

            under_way.add(pool.submit(work))

        while under_way or (waiting and not cancelled()):
            while waiting and len(under_way) < len(hands) and not cancelled():
                begin()
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)


def _one(
    path: Path,
    name: str,
    options: Options,
    share: float,
    hands: Hands,
    cancelled: Callable[[], bool],
    clock: Callable[[], float],
) -> Line:
    began = clock()

    def without_run(reason: str, verdict: str) -> Line:
        return refused_line(name, options, reason, clock() - began, verdict)

    try:
        text = read_program(path)
    except Unreadable as error:
        return without_run(str(error), "refused")
    words = {"family": None, "size": None} | header(text)
    if share < LEAST_S:
        reason = f"Its share of the time is {max(0.0, share):.0f} s, too little to measure anything; give more minutes."
        return without_run(reason, "failed") | words
    bounded = options.model_copy(update={"budget": options.budget.model_copy(update={"wall_s": share})})
    try:
        state = optimize(text, bounded, hands, MemoryBlobs(), cancelled=cancelled, name=name)
    except Exception as error:  # a fault of ours on one program must not cost the results of the others
        log.exception("the run of %s broke", name)
        return without_run(f"The run broke: {type(error).__name__}: {error}"[:1000], "failed") | words
    return line_of(state, name, clock() - began) | words


def provenance(root: Path) -> dict[str, str | None]:
    """What every line of one invocation shares: `run_id`, the time it began, and the commit of the code (`+` where files differ
    from it; None outside a repository)."""
    commit = None
    with suppress(OSError, subprocess.SubprocessError):
        command = ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
        commit = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    began = datetime.now(UTC)
    return {"run_id": f"{began:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}", "began": f"{began:%Y-%m-%dT%H:%M:%SZ}", "commit": commit}
