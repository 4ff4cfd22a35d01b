"""`python -m gpu_runner hacks`: known cheats and suspicious honest programs before the real Verifier."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_runner.contracts import HackClass
from gpu_runner.device import device_info, resolve_target
from gpu_runner.hacks.gallery import HONEST, Entry, default_folder, read
from gpu_runner.hacks.record import Kind, Recorder, begun
from gpu_runner.hacks.table import about, markdown, summary
from gpu_runner.hacks.trial import Result, judge
from gpu_runner.hands import HandsError

ALL_GOOD, NOT_ALL_GOOD, NOT_JUDGED = 0, 1, 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hacks`."""
    parser.add_argument("--target", required=True, help="cpu, cuda (the first visible device), or an architecture: sm_90")
    parser.add_argument(
        "--only", metavar="CLASS", choices=[*map(str, HackClass), HONEST], help="programs of one class, or honest"
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="put each result into FILE, in the place of an earlier one")
    parser.add_argument("--resume", action="store_true", help="keep what FILE has of this very Verifier, device and program")
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
        results = []
        with hands() as made:
            for number, entry in enumerate(entries, 1):
                known = record.known(entry) if record and options.resume else None
                found = known or judge(made, entry, target)
                if record and known is None:
                    record.add(entry, found, time.monotonic() - started)
                results.append(found)
                print(f"{number:3}/{len(entries)} {_line(found)}", file=sys.stderr, flush=True)
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
    record = f" --record {options.record.name}" if options.record else ""
    return f"python -m gpu_runner hacks --target {options.target}{only}{record}"


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
