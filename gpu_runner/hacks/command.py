"""`python -m gpu_runner hacks`: known cheats and suspicious honest programs before the real Verifier."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from gpu_runner.config import config, private_folder
from gpu_runner.contracts import HackClass, digest
from gpu_runner.device import device_info, resolve_target
from gpu_runner.hacks.gallery import HONEST, Entry, default_folder, read
from gpu_runner.hacks.table import markdown, summary
from gpu_runner.hacks.trial import PROTOCOL, Result, judge
from gpu_runner.hands import HandsError

ALL_GOOD, NOT_ALL_GOOD, NOT_JUDGED = 0, 1, 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hacks`."""
    parser.add_argument("--target", required=True, help="cpu, cuda (the first visible device), or an architecture: sm_90")
    parser.add_argument(
        "--only", metavar="CLASS", choices=[*map(str, HackClass), HONEST], help="programs of one class, or honest"
    )
    parser.add_argument(
        "--resume", action="store_true", help="keep what an interrupted run of the same code has judged already"
    )
    parser.add_argument("--gallery", type=Path, default=default_folder(), metavar="DIR", help="the folder of the programs")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line of standard output")


def run(options: argparse.Namespace, hands: Callable[[], Any]) -> int:
    """The command. Progress on standard error, the table and then the line on standard output."""
    started = time.monotonic()
    try:
        target = resolve_target(options.target)
        entries = chosen(read(options.gallery, "cpu" if target == "cpu" else "cuda"), options.only)
        with hands() as made, _Log.open(target, options.resume) as log:
            results = [_judged(made, entry, target, log, number, len(entries)) for number, entry in enumerate(entries, 1)]
    except HandsError as error:
        print(str(error), file=sys.stderr, flush=True)
        return NOT_JUDGED
    device = device_info(target)
    wall = time.monotonic() - started
    about = f"{device.name}, {device.cores} cores, torch {device.torch}, {device.sandbox}, protocol {PROTOCOL.id}, {wall:.0f} s"
    print(f"{markdown(results)}\n\nTarget {target}: {about}.", flush=True)
    if options.json:
        print(json.dumps(summary(results)), flush=True)
    return ALL_GOOD if all(r.good for r in results) else NOT_ALL_GOOD


def chosen(entries: list[Entry], only: str | None) -> list[Entry]:
    """Those of one class, of `honest`, or all. Raises HandsError when there is none."""
    kept = [entry for entry in entries if only is None or str(entry.hack or HONEST) == only]
    if not kept:
        raise HandsError(f"The gallery has no program of the class {only} for this target.")
    return kept


def _judged(hands: Any, entry: Entry, target: str, log: _Log, number: int, total: int) -> Result:
    known = log.known.get(entry.sha256)
    found = known or judge(hands, entry, target)
    if known is None:
        log.add(entry, found)
    mark = "ok  " if found.good else "BAD "
    facts = ", ".join(filter(None, (found.verdict, f"named {found.named}" if found.named else "", found.speed)))
    text = f"{number:3}/{total} {mark}{found.name}: {found.outcome} ({facts}; {found.seconds:.1f} s)"
    print(text, file=sys.stderr, flush=True)
    return found


class _Log:
    """What has been judged, a line each, so that an interrupted run can go on. Only lines of this very code are believed."""

    def __init__(self, file: TextIO, code: str, known: dict[str, Result]) -> None:
        self.known = known
        self._file, self._code = file, code

    @classmethod
    @contextmanager
    def open(cls, target: str, resume: bool) -> Iterator[_Log]:
        path = private_folder(config().cache_dir) / f"gallery-{target}.jsonl"
        code = _code(target)
        known = dict(_lines(path, code)) if resume and path.is_file() else {}
        with path.open("a" if resume else "w", encoding="utf-8") as file:
            yield cls(file, code, known)

    def add(self, entry: Entry, result: Result) -> None:
        line = {"code": self._code, "entry": entry.sha256, "result": result.as_dict()}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def _lines(path: Path, code: str) -> Iterator[tuple[str, Result]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            data = json.loads(line)
            if data["code"] == code:
                yield data["entry"], Result.from_dict(data["result"])
        except (ValueError, KeyError, TypeError):
            continue  # a line that was being written when the run ended


def _code(target: str) -> str:
    """A digest of the Verifier, its protocol and the machine."""
    package = Path(__file__).resolve().parents[1]
    texts = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(package.rglob("*.py"))]
    return digest({"code": texts, "protocol": PROTOCOL.model_dump(mode="json"), "device": device_info(target).name})
