"""Many programs, one after another, in a given time: one result line each, written the moment it is known."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from agents.blobs import MemoryBlobs
from agents.headless import optimize
from agents.reading import Unreadable, read_program
from agents.result import line_of, refused_line
from agents.state import Options
from agents.summary import Line
from gpu_runner.hands import Hands

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


def benchmark(
    root: Path,
    todo: list[Path],
    options: Options,
    seconds: float,
    hands: Hands,
    say: Callable[[str], None] = lambda text: None,
    cancelled: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Line]:
    """One line per program of `todo`, in order, in `seconds` of wall clock in all.

    Each program gets an equal share of the time that is left; what it does not use goes to those after it. A program that
    cannot be read or does not work gets a line that says so. Once `cancelled()` turns true no further program is begun.
    """
    until = clock() + seconds
    for number, path in enumerate(todo):
        if cancelled():
            return
        name = path.relative_to(root).as_posix()
        share = (until - clock()) / (len(todo) - number)
        say(f"[{number + 1}/{len(todo)}] {name}, {max(0.0, share):.0f} s")
        yield _one(path, name, options, share, hands, cancelled, clock)


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
    try:
        text = read_program(path)
    except Unreadable as error:
        return refused_line(name, options, str(error), clock() - began)
    if share < LEAST_S:
        reason = f"Its share of the time is {max(0.0, share):.0f} s, too little to measure anything; give more minutes."
        return refused_line(name, options, reason, clock() - began, verdict="failed")
    bounded = options.model_copy(update={"budget": options.budget.model_copy(update={"wall_s": share})})
    state = optimize(text, bounded, hands, MemoryBlobs(), cancelled=cancelled, name=name)
    return line_of(state, name, clock() - began)
