"""`python -m gpu_runner hacks`: known cheats and suspicious honest programs before the real Verifier."""

from __future__ import annotations

import argparse
import contextlib
import json
import queue
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from gpu_runner.contracts import CheckReport, HackClass
from gpu_runner.device import device_info, resolve_target
from gpu_runner.hacks.gallery import HONEST, Entry, default_folder, read
from gpu_runner.hacks.record import Kind, Recorder, begun
from gpu_runner.hacks.table import about, markdown, summary
from gpu_runner.hacks.trial import Result, checked, needs_timing, result, timed
from gpu_runner.hands import Hands, HandsError

ALL_GOOD, NOT_ALL_GOOD, NOT_JUDGED = 0, 1, 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hacks`."""
    parser.add_argument("--target", required=True, help="cpu, cuda (the first visible device), or an architecture: sm_90")
    parser.add_argument(
        "--only", metavar="CLASS", choices=[*map(str, HackClass), HONEST], help="programs of one class, or honest"
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="put each result into FILE, in the place of an earlier one")
    parser.add_argument("--resume", action="store_true", help="keep what FILE has of this very Verifier, device and program")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many checks at a time; a timing is always alone")
    parser.add_argument("--gallery", type=Path, default=default_folder(), metavar="DIR", help="the folder of the programs")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line of standard output")


def run(options: argparse.Namespace, hands: Callable[[], Any]) -> int:
    """The command. Progress on standard error, the table and then the line on standard output."""
    started = time.monotonic()
    try:
        if options.resume and options.record is None:
            raise HandsError("--resume goes on with a record: name its file with --record FILE.")
        target = resolve_target(options.target)
        kind: Kind = "cpu" if target == "cpu" else "cuda"
        everything = read(options.gallery, kind)
        entries = chosen(everything, options.only)
        told = begun(device_info(target), _command(options))
        names = {entry.name for entry in everything}
        record = Recorder(options.record, kind, told, names) if options.record else None
        known: dict[str, Result] = {}
        if record and options.resume:
            known = {entry.name: found for entry in entries if (found := record.known(entry))}
        with contextlib.ExitStack() as stack:
            several = [stack.enter_context(hands()) for _ in range(max(1, options.jobs))]
            fresh = judged(several, [entry for entry in entries if entry.name not in known], target)
            for number, (entry, found) in enumerate(fresh, len(known) + 1):
                if record:
                    record.add(entry, found, time.monotonic() - started)
                print(f"{number:3}/{len(entries)} {_line(found)}", file=sys.stderr, flush=True)
                known[entry.name] = found
        results = [known[entry.name] for entry in entries]
    except HandsError as error:
        print(str(error), file=sys.stderr, flush=True)
        return NOT_JUDGED
    told = told.model_copy(update={"wall_s": time.monotonic() - started, "device": device_info(target)})
    print(f"{markdown(results)}\n\n{about([told])}", flush=True)
    if options.json:
        print(json.dumps(summary(results)), flush=True)
    return ALL_GOOD if all(r.good for r in results) else NOT_ALL_GOOD


def _command(options: argparse.Namespace) -> str:
    only = f" --only {options.only}" if options.only else ""
    jobs = f" --jobs {options.jobs}" if options.jobs != 1 else ""
    record = f" --record {options.record.name}" if options.record else ""
    return f"python -m gpu_runner hacks --target {options.target}{only}{jobs}{record}"


def judged(several: Sequence[Hands], entries: list[Entry], target: str) -> Iterator[tuple[Entry, Result]]:
    """Every entry with its result, as they come: checks beside each other, one for each hands, and after all of them the
    timings, one at a time. Raises HandsError when one cannot be judged."""
    free: queue.SimpleQueue[Hands] = queue.SimpleQueue()
    for hands in several:
        free.put(hands)

    def check(entry: Entry) -> CheckReport:
        hands = free.get()
        try:
            return checked(hands, entry, target)
        finally:
            free.put(hands)

    later: list[tuple[Entry, CheckReport]] = []
    with ThreadPoolExecutor(len(several), "stitchweb-gallery") as executor:
        waiting = {executor.submit(check, entry): entry for entry in entries}
        try:
            for done in as_completed(waiting):
                entry, report = waiting[done], done.result()
                if needs_timing(entry, report):
                    later.append((entry, report))
                else:
                    yield entry, result(entry, report, None)
        finally:
            executor.shutdown(cancel_futures=True)
    for entry, report in later:
        yield entry, timed(several[0], entry, target, report)


def chosen(entries: list[Entry], only: str | None) -> list[Entry]:
    """Those of one class, of `honest`, or all. Raises HandsError when there is none."""
    kept = [entry for entry in entries if only is None or str(entry.hack or HONEST) == only]
    if not kept:
        raise HandsError(f"The gallery has no program of the class {only} for this target.")
    return kept


def _line(found: Result) -> str:
    mark = "ok  " if found.good else "BAD "
    facts = ", ".join(filter(None, (found.verdict, f"named {found.named}" if found.named else "", found.speed)))
    return f"{mark}{found.name}: {found.outcome} ({facts}; {found.seconds:.1f} s)"
