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
from statistics import median

from agents.blobs import MemoryBlobs
from agents.headless import optimize
from agents.reading import Unreadable, header, read_program
from agents.result import line_of, refused_line
from agents.state import Options, State, StopCause
from agents.summary import Line
from gpu_runner import turns
from gpu_runner.contracts import Progress, Report, Task, Verdict
from gpu_runner.hands import Hands

log = logging.getLogger(__name__)

REDONE = frozenset({"failed", "cancelled"})  # verdicts that say nothing of the program: a resumed benchmark tries it again
LEAST_S = {"cpu": 30.0, "gpu": 150.0}  # what a program takes, as long as too few are done to tell
TELLING, ROOM, FLOOR_S = 3, 1.25, 10.0  # so many done ones tell; the next one gets this many times their median at least
CUT_SHORT = "Its share of the time, {share:.0f} s, was over before a program of ours had been judged; --resume takes it again."


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
        self._seconds: dict[str, float] = {}
        self._stages: dict[str, float] = {}

    def perform(
        self, task: Task, progress: Callable[[Progress], None] = lambda p: None, cancelled: Callable[[], bool] = lambda: False
    ) -> Report:
        """See `gpu_runner.hands.Hands`."""
        began = since = time.monotonic()
        stage = ""

        def told(message: Progress) -> None:
            nonlocal since, stage
            if message.kind == "stage":
                now = time.monotonic()
                _add(self._stages, f"{task.kind}: {stage}".rstrip(": "), now - since)
                since, stage = now, _words(str(message.payload.get("text")))
            progress(message)

        with turns.clocked() as waits:
            try:
                return self._hands.perform(task, told, cancelled)
            finally:
                now = time.monotonic()
                _add(self._stages, f"{task.kind}: {stage}".rstrip(": "), now - since)
                _add(self._seconds, "waiting", sum(waits))
                _add(self._seconds, task.kind, now - began - sum(waits))

    @property
    def spent(self) -> dict[str, dict[str, float]]:
        """For a result line, rounded: `seconds` by the kind of a task ("waiting": for the device, for a place to compile), and
        `stages`, the same time by what was done, waiting included."""
        return {
            name: {key: round(value, 2) for key, value in times.items() if name == "seconds" or value >= 0.005}
            for name, times in (("seconds", self._seconds), ("stages", self._stages))
        }


def _add(times: dict[str, float], key: str, seconds: float) -> None:
    times[key] = times.get(key, 0.0) + seconds


def _words(stage: str) -> str:
    """A stage without what it names in brackets or after a colon."""
    return stage.partition(" (")[0].partition(":")[0].strip()


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
    order, each with an equal share of the time that is left, but never with less than one can be expected to take. Those that
    no time is left for get no line, so that a resumed benchmark takes them; what a program does not use goes to those after it.
    A program that cannot be read, does not work or breaks this process' own code gets a line that says so. Once
    `cancelled()` turns true no further program is begun.
    """
    until = clock() + seconds
    pace = _Pace(LEAST_S["cpu" if options.target == "cpu" else "gpu"])
    free = queue.SimpleQueue[Hands]()
    for one in hands:
        free.put(one)
    waiting = list(enumerate(todo))
    with ThreadPoolExecutor(len(hands), thread_name_prefix="program") as pool:
        under_way: set[Future[Line]] = set()

        def begin() -> None:
            number, path = waiting.pop(0)
            name = path.relative_to(root).as_posix()
            left = until - clock()
            share = min(left, max(pace.least_s, left * min(len(hands), len(waiting) + 1) / (len(waiting) + 1)))
            say(f"[{number + 1}/{len(todo)}] {name}, {share:.0f} s")

            def work() -> Line:
                mine = free.get()
                try:
                    clocked = Clocked(mine)
                    return _one(path, name, options, share, clocked, cancelled, clock) | clocked.spent
                finally:
                    free.put(mine)

            under_way.add(pool.submit(work))

        while True:
            while waiting and len(under_way) < len(hands) and not cancelled() and until - clock() >= pace.least_s:
                begin()
            if not under_way:
                break
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                pace.saw(line := future.result())
                yield line
    if waiting and not cancelled():
        some = "1 program was" if len(waiting) == 1 else f"{len(waiting)} programs were"
        left = max(0.0, until - clock())
        say(f"{some} not begun: one takes about {pace.least_s:.0f} s, and {left:.0f} s were left. --resume takes up there.")


class _Pace:
    """How long a program may be expected to take. `first_s`: as long as nothing is known."""

    def __init__(self, first_s: float) -> None:
        self._first_s, self._took = first_s, list[float]()

    def saw(self, line: Line) -> None:
        if line["verdict"] in ("verified", "no-gain"):  # others end early
            self._took.append(float(line["wall_s"]))

    @property
    def least_s(self) -> float:
        return self._first_s if len(self._took) < TELLING else max(FLOOR_S, ROOM * median(self._took))


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
    bounded = options.model_copy(update={"budget": options.budget.model_copy(update={"wall_s": share})})
    try:
        state = optimize(text, bounded, hands, MemoryBlobs(), cancelled=cancelled, name=name, clock=clock)
    except Exception as error:  # a fault of ours on one program must not cost the results of the others
        log.exception("the run of %s broke", name)
        return without_run(f"The run broke: {type(error).__name__}: {error}"[:1000], "failed") | words
    line = line_of(state, name, clock() - began) | words
    if line["verdict"] == "no-gain" and _cut_short(state):
        line |= {"verdict": "cancelled", "error": CUT_SHORT.format(share=share)}
    return line


def _cut_short(state: State) -> bool:
    """Whether time ran out before any program of ours came to a verdict of its own: that nothing was faster nobody knows."""
    judged = [c for c in state.candidates if c.verdict not in (None, Verdict.TIMED_OUT)]
    return state.stop_cause is StopCause.BUDGET_WALL and not judged


def provenance(root: Path) -> dict[str, str | None]:
    """What every line of one invocation shares: `run_id`, the time it began, and the commit of the code (`+` where files differ
    from it; None outside a repository)."""
    commit = None
    with suppress(OSError, subprocess.SubprocessError):
        command = ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
        commit = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    began = datetime.now(UTC)
    return {"run_id": f"{began:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}", "began": f"{began:%Y-%m-%dT%H:%M:%SZ}", "commit": commit}
