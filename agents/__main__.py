"""`python -m agents optimize | benchmark | doctor`: the whole loop in one process tree, with no database, broker or web.

Progress goes to standard error; with `--json` the last line of standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agents import doctor
from agents.benchmark import benchmark, keep_done, programs, provenance, read_lines
from agents.events import Event
from agents.folder import FolderTaken, RunFolder
from agents.headless import exit_status, optimize
from agents.llm.cassette import Recorder
from agents.llm.doors import through
from agents.model_choice import ModelChoice, Role
from agents.model_options import (
    add_doctor_options,
    add_model_options,
    budget_of,
    check_engineers,
    engineers_of,
    models_of,
    positive,
)
from agents.reading import Unreadable, read_program
from agents.result import line_of, refused_line, sentence_of, verdict_of
from agents.state import MAX_WIDTH, Options, Search
from agents.summary import latest, table, totals
from gpu_runner.contracts import PROTOCOLS, Mode, Precision
from gpu_runner.device import resolve_target
from gpu_runner.hands import Hands, HandsError

BAD_INPUT, BROKEN = 2, 4


HandsFactory = Callable[[], AbstractContextManager[Hands]]


def main(argv: Sequence[str] | None = None, hands: HandsFactory | None = None) -> int:
    """Runs a command and gives its exit status. `hands` makes the hands; this machine's own unless given."""
    given = _parser().parse_args(argv)
    try:
        status: int = given.work(given, hands or _local_hands)
    except HandsError as error:
        _say(str(error))
        return BROKEN
    return status


def _local_hands() -> AbstractContextManager[Hands]:
    from gpu_runner.local import LocalHands  # starts a pool of processes: not for --help and --summary

    return LocalHands(whole_runs=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m agents", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="optimize | benchmark | doctor")

    one = commands.add_parser("optimize", help="make one program faster", description=_optimize.__doc__)
    one.add_argument("file", type=Path, help="the reference: a Python file with a module class and get_inputs()")
    one.add_argument("--out", type=Path, help="a new or empty folder for everything (default: FILE's name with -optimized)")
    one.add_argument("--entry", default="", help="the module class, when it is not called Model")
    one.add_argument("--minutes", type=float, default=15.0, help="time for the whole loop (default 15)")
    one.add_argument("--record", type=Path, metavar="FILE", help="write what models answer; --model cassette/FILE plays it")
    one.set_defaults(work=_optimize)

    many = commands.add_parser("benchmark", help="every program of a folder", description=_benchmark.__doc__)
    many.add_argument("folder", type=Path, nargs="?", help="every *.py below it is a program")
    many.add_argument("--minutes", type=float, help="time for all programs together")
    many.add_argument("--out", type=Path, help="a file for the result lines")
    many.add_argument("--resume", action="store_true", help="go on with --out: programs that have a line are left out")
    many.add_argument("--summary", type=Path, metavar="FILE", help="print the totals of a results file, and do nothing else")
    many.add_argument(
        "--jobs", type=positive, help="programs under way at once (default: 1; on a GPU one per 4 cores, up to 4)"
    )
    many.set_defaults(work=_benchmark)

    look = commands.add_parser("doctor", help="whether a model can do what runs ask of it", description=doctor.run.__doc__)
    add_doctor_options(look)
    look.add_argument("--seconds", type=positive, default=300, help="for all questions to a model together (default 300)")
    look.add_argument("--json", action="store_true", help="one JSON object as the last line of standard output")
    look.set_defaults(work=lambda given, hands: doctor.run(given))

    for command in (one, many):
        command.add_argument("--target", default="cpu", help="cpu, cuda (the first visible device) or sm_90 (default cpu)")
        add_model_options(command)
        command.add_argument("--attempts", type=positive, default=12, help="programs to write at most (default 12)")
        wide = range(1, MAX_WIDTH + 1)
        command.add_argument(
            "--width", type=int, choices=wide, default=1, help="programs to write at once and keep the best of (default 1)"
        )
        command.add_argument(
            "--beam", type=int, choices=wide, default=1, help="of the best programs so far that they start from (default 1)"
        )
        command.add_argument("--protocol", choices=sorted(PROTOCOLS), default="strict", help="of the final verification")
        command.add_argument("--mode", choices=[str(m) for m in Mode], default=str(Mode.EVAL))
        command.add_argument("--precision", choices=[str(p) for p in Precision], default=str(Precision.AS_REFERENCE))
        command.add_argument("--require-own-kernels", action="store_true", help="reject programs that call libraries alone")
        command.add_argument(
            "--profiles", choices=["full", "brief"], default="full" if command is one else "brief",
            help="full: under every profiler of a GPU's machine; brief: under torch.profiler alone (default: %(default)s)",
        )  # fmt: skip
        command.add_argument("--json", action="store_true", help="one JSON object as the last line of standard output")
    return parser


Models = Mapping[Role, ModelChoice]


def _options(given: argparse.Namespace, seconds: float, target: str, models: Models = MappingProxyType({})) -> Options:
    names = engineers_of(given)
    return Options(
        target=target,
        planner=names["planner"],
        coder=names["coder"],
        verifier=names["verifier"],
        models=dict(models),
        protocol=PROTOCOLS[given.protocol],
        mode=Mode(given.mode),
        precision=Precision(given.precision),
        require_own_kernels=given.require_own_kernels,
        brief_profiles=given.profiles == "brief",
        budget=budget_of(given, seconds),
        search=Search(width=given.width, beam=given.beam),
    )


def _able(given: argparse.Namespace) -> tuple[str, Models]:
    """The resolved target and the roles' models. HandsError when there is no such device, engineer, model or key."""
    if given.beam > given.width:
        raise HandsError(f"{given.beam} programs to start from are more than the {given.width} written at once: raise --width.")
    try:
        models = models_of(given)
        check_engineers(given, models)
    except ValueError as error:
        raise HandsError(str(error)) from error
    return resolve_target(given.target), models


def _optimize(given: argparse.Namespace, hands: HandsFactory) -> int:
    """Run the loop on one program. Exit status: 0 verified and faster than eager, 2 refused, 3 nothing faster, 4 otherwise."""
    began = time.monotonic()
    options = _options(given, given.minutes * 60, given.target)

    def without_run(error: Exception, verdict: str, status: int) -> int:
        _say(str(error))
        _print(given.json, refused_line(str(given.file), options, str(error), time.monotonic() - began, verdict))
        return status

    try:
        options = _options(given, given.minutes * 60, *_able(given))
        text = read_program(given.file)
        folder = RunFolder(given.out or Path(f"{given.file.stem}-optimized"))
    except Unreadable as error:
        return without_run(error, "refused", BAD_INPUT)
    except (HandsError, FolderTaken, OSError) as error:
        return without_run(error, "failed", BROKEN)

    tell, state = _Teller(), None
    try:
        line = Recorder(given.record, text, given.file.name) if given.record else None
        with _interrupts() as cancelled, hands() as workers, through(line):

            def on_event(event: Event) -> None:
                folder.tell(event)
                tell(event)

            name = given.file.name
            state = optimize(text, options, workers, folder.blobs, on_event, cancelled, name=name, entry=given.entry)
    except HandsError as error:
        return without_run(error, "failed", BROKEN)
    finally:
        folder.close(state)
    _say(sentence_of(state))
    _print(given.json, line_of(state, str(given.file), time.monotonic() - began))
    return exit_status(state, verdict_of(state))


def _benchmark(given: argparse.Namespace, hands: HandsFactory) -> int:
    """Run the loop on every *.py below a folder, or print the totals of a results file. Exit status: 0 done, 2 bad input, 4
    otherwise."""
    if given.summary is not None:
        return _summary(given.summary, given.json)
    if given.folder is None or given.minutes is None or given.out is None:
        _say("A benchmark needs a folder, --minutes and --out; --summary FILE prints the totals of an earlier one.")
        return BAD_INPUT
    found = programs(given.folder) if given.folder.is_dir() else []
    if not found:
        _say(f"There is no *.py below {given.folder}.")
        return BAD_INPUT
    if given.out.exists() and not given.resume:
        _say(f"{given.out} is there already; go on with it by --resume, or name another file.")
        return BAD_INPUT
    options = _options(given, given.minutes * 60, *_able(given))
    done = keep_done(given.out) if given.out.exists() else set()
    todo = [path for path in found if path.relative_to(given.folder).as_posix() not in done]
    jobs = given.jobs or (1 if options.target == "cpu" else max(1, min(4, len(os.sched_getaffinity(0)) // 4)))
    origin = provenance(Path(__file__).resolve().parent)
    with _interrupts() as cancelled, ExitStack() as stack, given.out.open("a", encoding="utf-8") as out:
        workers = [stack.enter_context(hands()) for _ in range(jobs)]
        for line in benchmark(given.folder, todo, options, given.minutes * 60, workers, _say, cancelled):
            out.write(json.dumps(line | origin, ensure_ascii=False) + "\n")
            out.flush()
            _say(f"    {line['file']}: {_short(line)}")
        interrupted = cancelled()
    lines = latest(read_lines(given.out))
    print(table(lines))
    _print(given.json, totals(lines))
    return BROKEN if interrupted else 0


def _summary(path: Path, as_json: bool) -> int:
    try:
        lines = latest(read_lines(path))
    except (OSError, UnicodeDecodeError) as error:
        _say(f"The results file cannot be read: {error}.")
        return BAD_INPUT
    if not lines:
        _say(f"{path} holds no result line.")
        return BAD_INPUT
    print(table(lines))
    _print(as_json, totals(lines))
    return 0


def _short(line: dict[str, Any]) -> str:
    speed = f", {line['speedup_vs_eager']:.2f}× over eager" if line["speedup_vs_eager"] else ""
    return f"{line['verdict']}{speed}" + (f": {line['error']}" if line["error"] else "")


class _Teller:
    """Says on standard error what a person would want to follow; each sentence once, and what streams in by whole lines."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._last = self._begun = ""

    def __call__(self, event: Event) -> None:
        if event.kind == "log.lines" and event.payload["stream"] == "engineer":
            whole, _, self._begun = (self._begun + str(event.payload["text"])).rpartition("\n")
            self._tell(whole.strip())
            return
        if text := self._text(event):
            begun, self._begun = self._begun, ""
            self._tell(begun.strip())
            self._tell(text)

    def _tell(self, text: str) -> None:
        if text and text != self._last:
            self._last = text
            _say(f"[{time.monotonic() - self._began:6.1f} s] {text}")

    @staticmethod
    def _text(event: Event) -> str:
        payload = event.payload
        match event.kind:
            case "run.status":
                return str(payload["doing"])
            case "plan.made":
                due = [todo for todo in payload["todos"] if todo["status"] in ("open", "doing")]
                titles = [f"\n    {todo['id']}: {todo['title']}" for todo in due]
                return "The plan:" + "".join(titles) if titles else "The plan has nothing left to try"
            case "candidate.changed" if payload["status"] == "done" and payload["note"]:
                return f"{payload['id']}: {payload['verdict'] or 'no verdict'}. {payload['note']}"
            case "best.changed" if payload["candidate"]:
                return f"The best is now {payload['candidate']}"
        return ""


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """While inside, Ctrl-C and a termination ask the work to end cleanly; a second Ctrl-C breaks it off."""
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        # A signal can arrive in the middle of a print, and a buffered stream may not be entered twice: past the buffer, then.
        with suppress(OSError):
            os.write(2, b"Ending; what runs is stopped. Once more breaks off.\n")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print(as_json: bool, value: dict[str, Any]) -> None:
    if as_json:
        print(json.dumps(value, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    sys.exit(main())
