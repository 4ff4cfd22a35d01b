"""How long `make run` takes to a served page, and how long Ctrl-C takes to leave nothing behind.

Usage: python bench/start_up.py [--rounds N] [--fresh]

Each round starts `make run` on a free port with an empty data folder, then again with the same folder. `--fresh` adds one start
in a fresh clone without a virtual environment (packages come from pip's cache where there is one).
Times are wall clock from the start of `make` to: the first answer of the health page; the run page behind the login link.
"""

from __future__ import annotations

import argparse
import http.cookiejar
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from report import ROOT, show

LIMIT_S = 900.0
POLL_S = 0.02


@dataclass(frozen=True)
class Start:
    """Seconds of one start, and the processes that outlived Ctrl-C."""

    served: float
    page: float
    stopped: float
    left: int


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def processes() -> dict[tuple[int, str], int]:
    """(pid, start time) to parent of every living process; zombies left out. Linux only."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended while we looked
        if fields[0] != "Z":
            found[int(stat.parent.name), fields[19]] = int(fields[1])
    return found


def descendants(root: int) -> set[tuple[int, str]]:
    """All that `root` started, directly or not, and that still runs; itself included."""
    living = processes()
    family = {key for key in living if key[0] == root}
    while True:
        pids = {pid for pid, _ in family}
        more = {key for key, parent in living.items() if parent in pids} - family
        if not more:
            return family
        family |= more


def one_start(tree: Path, data: Path) -> Start:
    """Start, follow the login link, stop. Raises RuntimeError with the output when no page comes."""
    port = free_port()
    environment = {**os.environ, "DATA_DIR": str(data), "PORT": str(port), "PYTHONUNBUFFERED": "1"}
    began = time.perf_counter()
    process = subprocess.Popen(
        ["make", "run"],
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    lines: list[str] = []
    link = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if "/login/" in line:
                link.set()

    threading.Thread(target=read, daemon=True).start()
    try:
        served = _wait_for(f"http://127.0.0.1:{port}/health/", process, lines, began)
        if not link.wait(timeout=LIMIT_S):
            raise RuntimeError("no login link was printed:\n" + "".join(lines))
        address = re.search(r"http://\S+/login/\S+", "".join(lines))
        assert address is not None
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        with opener.open(address[0], timeout=60) as answer:
            body = answer.read()
        page = time.perf_counter() - began
        if b"<html" not in body:
            raise RuntimeError(f"the login link led to something that is no page: {body[:200]!r}")
    finally:
        family = descendants(process.pid)
        asked = time.perf_counter()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)  # what a terminal does on Ctrl-C
        process.wait(timeout=60)
        stopped = time.perf_counter() - asked
    return Start(served, page, stopped, len(family & processes().keys()))


def _wait_for(address: str, process: subprocess.Popen[str], lines: list[str], began: float) -> float:
    while time.perf_counter() - began < LIMIT_S:
        if process.poll() is not None:
            raise RuntimeError(f"make run ended with status {process.returncode}:\n" + "".join(lines))
        try:
            with urllib.request.urlopen(address, timeout=5):
                return time.perf_counter() - began
        except (urllib.error.URLError, OSError):
            time.sleep(POLL_S)
    raise RuntimeError(f"nothing was served within {LIMIT_S:.0f} s:\n" + "".join(lines))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="starts of each kind (default 3); the median is shown")
    parser.add_argument("--fresh", action="store_true", help="also set up a fresh clone, virtual environment included")
    options = parser.parse_args()

    rows: list[tuple[object, ...]] = []

    def add(name: str, starts: list[Start]) -> None:
        def middle(field: str) -> str:
            return f"{statistics.median(getattr(start, field) for start in starts):.2f}"

        left = max(start.left for start in starts)
        rows.append((name, len(starts), middle("served"), middle("page"), middle("stopped"), left))

    with tempfile.TemporaryDirectory(prefix="stitchweb-start-") as folder:
        work = Path(folder)
        if options.fresh:
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(work / "clone")], check=True)
            add("fresh clone, no .venv", [one_start(work / "clone", work / "clone-data")])
        subprocess.run(["make", "setup"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        first, again = [], []
        for number in range(options.rounds):
            first.append(one_start(ROOT, work / f"data-{number}"))
            again.append(one_start(ROOT, work / f"data-{number}"))
        add("set up, empty data folder", first)
        add("set up, same data folder", again)
    head = ("start", "rounds", "health page, s", "run page, s", "stop, s", "processes left")
    show("make run to a served page (median)", head, rows, "Django", "daphne", "torch")
    return 1 if any(row[-1] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
