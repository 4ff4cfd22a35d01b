"""`python -m gpu_runner verify`: one reference, one candidate, a verdict and a time, without a loop around it.

`python -m gpu_runner judge DIR` makes the same verdict from the numbers that `verify --evidence DIR` wrote.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpu_runner import evidence
from gpu_runner.contracts import (
    PROTOCOLS,
    BuildReport,
    BuildTask,
    CandidateFiles,
    CheckReport,
    CheckTask,
    Mode,
    Precision,
    Progress,
    Protocol,
    Replay,
    Source,
    TimeTask,
    TimingReport,
    Verdict,
    digest,
)
from gpu_runner.contracts.candidate import MANIFEST_FILE, MAX_BYTES, MODEL_FILE
from gpu_runner.contracts.entry import ENTRY_FILE
from gpu_runner.device import resolve_target
from gpu_runner.hands import Hands, HandsError
from gpu_runner.line import result_line
from gpu_runner.outcome import check_report, rows_of
from gpu_runner.sandbox.output import readable
from gpu_runner.speed import timing_report

VERIFIED, REJECTED, BAD_INPUT, NOT_JUDGED = 0, 1, 2, 4
_STATUS = {str(Verdict.VERIFIED): VERIFIED, str(Verdict.REFUSED): BAD_INPUT}


class BadInput(Exception):
    """Something given on the command line cannot be used. The message is a sentence with a way out."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `verify`."""
    parser.add_argument("--reference", type=Path, required=True, help="the PyTorch program: a file with Model and get_inputs()")
    parser.add_argument(
        "--candidate", type=Path, required=True, help="a folder with model_new.py or entry.json, or a file with ModelNew"
    )
    parser.add_argument("--target", required=True, help="cpu, cuda (the first visible device), or an architecture: sm_90")
    parser.add_argument("--entry", default="", help="the module class of the reference, when it is not called Model")
    parser.add_argument("--protocol", choices=sorted(PROTOCOLS), default="strict")
    parser.add_argument("--mode", choices=[str(mode) for mode in Mode], help="default: the protocol's, eval in most")
    parser.add_argument("--require-own-kernels", action="store_true", help="reject a right program that calls libraries alone")
    parser.add_argument("--precision", choices=[str(p) for p in Precision], default=str(Precision.AS_REFERENCE))
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line of standard output")
    parser.add_argument("--evidence", type=Path, metavar="DIR", help="write the numbers that the verdict is made of there")
    again = "one draw of an earlier check again and nothing else: the row's `replay` as JSON, or the row's name with --from"
    parser.add_argument("--replay", metavar="ROW", help=again)
    parser.add_argument(
        "--from", type=Path, metavar="DIR", dest="earlier", help="the evidence that --replay takes its row from"
    )


def read_source(path: Path, entry: str = "") -> Source:
    """The reference's text. Raises BadInput."""
    return Source(text=_text(path, "reference"), entry=entry)


def read_candidate(path: Path) -> CandidateFiles:
    """A candidate's folder, or a single file that becomes its `model_new.py`. Raises BadInput."""
    if path.is_dir():
        for file in (path / MODEL_FILE, path / ENTRY_FILE, path / MANIFEST_FILE, *(path / "kernels").glob("*")):
            if file.is_symlink():  # the folder may be somebody else's, and what a link leads to may be nobody else's business
                raise BadInput(f"The candidate's {file} is a link; put the file itself into the folder.")
        # What says how it is called must be there; the rest may be.
        first = ENTRY_FILE if (path / ENTRY_FILE).is_file() and not (path / MODEL_FILE).exists() else MODEL_FILE
        files = {first: _text(path / first, "candidate")}
        for name in (ENTRY_FILE, MANIFEST_FILE):
            if (path / name).is_file():
                files[name] = _text(path / name, "candidate")
        for kernel in sorted((path / "kernels").glob("*")):
            if kernel.suffix in (".cu", ".cuh", ".cpp", ".h", ".hpp"):
                files[f"kernels/{kernel.name}"] = _text(kernel, "candidate")
    else:
        files = {MODEL_FILE: _text(path, "candidate")}
    try:
        return CandidateFiles(files=files)
    except ValidationError as error:
        raise BadInput(
            f"The candidate {path} cannot be used: {error.errors()[0]['msg'].removeprefix('Value error, ')}."
        ) from None


def read_replay(row: str, earlier: Path | None) -> Replay:
    """A draw of an earlier check, as JSON or by its name in recorded evidence.

    Raises BadInput, and HandsError for evidence that cannot be read.
    """
    if earlier is None:
        try:
            return Replay.model_validate_json(row)
        except ValidationError:
            raise BadInput(
                "--replay needs a row's `replay` as JSON, or the name of a row and --from with its evidence."
            ) from None
    case = evidence.read(earlier)
    draws = rows_of(case.check, case.about.protocol) if case.check else ()
    known = {found.name: found.replay for found in draws if found.replay is not None}
    if row not in known:
        raise BadInput(f"The evidence in {earlier} has no draw called {row!r}; it has: {'; '.join(known) or 'none'}.")
    return known[row]


def _text(path: Path, what: str) -> str:
    try:
        if not path.is_file():  # a pipe or a device would be read for ever
            path.stat()
            raise BadInput(f"The {what} {path} is no plain file.")
        if path.stat().st_size > MAX_BYTES:
            raise BadInput(f"The {what} {path} is larger than {MAX_BYTES} bytes; give the source alone.")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"The {what} {path} is not UTF-8 text.") from None
    except OSError as error:
        raise BadInput(f"The {what} {path} cannot be read: {error.strerror}.") from None


def verify(
    hands: Hands,
    source: Source,
    candidate: CandidateFiles,
    target: str,
    protocol: Protocol,
    mode: Mode,
    precision: Precision,
    say: Callable[[str], None],
    file: str = "",
    require_own_kernels: bool = False,
    replay: Replay | None = None,
) -> evidence.Case:
    """Build, check, time, as far as each lets the next make sense; a replay is not timed.

    Raises HandsError when it cannot be judged.
    """
    started = time.monotonic()
    tell = _Teller(say)
    common: dict[str, Any] = {
        "target": target, "protocol": protocol, "mode": mode, "precision": precision, "candidate": candidate,
        "source": source, "evidence": True,
    }  # fmt: skip
    build = hands.perform(BuildTask(target=target, candidate=candidate), tell)
    if not isinstance(build, BuildReport):
        raise HandsError("The hands answered a build with another report.")
    programs = {"reference": source.sha256} | {name: digest(text.encode()) for name, text in candidate.files.items()}
    about = evidence.About(
        file=file, target=target, protocol=protocol, mode=mode, precision=precision, device=build.device, programs=programs,
        built=build.ok, build_log=build.diagnostics[0] if build.diagnostics else build.log[-2000:],
        build_timed_out=build.verdict is Verdict.TIMED_OUT, build_s=build.seconds, wall_s=0.0,
    )  # fmt: skip
    case = evidence.Case(about)
    if build.ok:
        check = hands.perform(CheckTask(**common, require_own_kernels=require_own_kernels, replay=replay), tell)
        if not isinstance(check, CheckReport) or check.evidence is None:
            raise HandsError("The hands answered a check with another report.")
        case.check, about.device = evidence.check_evidence(check.evidence), check.device
        if check.verdict is Verdict.VERIFIED and replay is None:
            timing = hands.perform(TimeTask(**common), tell)
            if not isinstance(timing, TimingReport) or timing.evidence is None:
                raise HandsError("The hands answered a timing with another report.")
            case.timing, about.device = evidence.speed_evidence(timing.evidence), timing.device
            say(timing.sentence)
    about.wall_s = round(time.monotonic() - started, 3)
    return case


def judged(case: evidence.Case) -> tuple[dict[str, Any], int]:
    """The result line and the exit status that the evidence makes. A pure function."""
    about = case.about
    build = about.build_report()
    check = check_report(case.check, about.protocol) if case.check else None
    timing = timing_report(case.timing) if case.timing else None
    if check is None:
        verdict, error = str(build.verdict or Verdict.BUILD_FAILED), about.build_log
    elif check.verdict is not Verdict.VERIFIED or timing is None:
        verdict, error = _word(check), check.sentence
    elif timing.verdict is not None:
        verdict, error = _word(timing), timing.sentence
    else:
        verdict, error = str(Verdict.VERIFIED), ""
    labels = [*(check.labels if check else ()), *(timing.labels if timing else ())]
    line = result_line(
        file=about.file, verdict=verdict, protocol=about.protocol.id, mode=about.mode, precision=about.precision, check=check,
        timing=timing, labels=labels, device=about.device, build_s=about.build_s, wall_s=about.wall_s, error=error,
    )  # fmt: skip
    return line, _STATUS.get(verdict, REJECTED)


def _word(report: CheckReport | TimingReport) -> str:
    """The verdict as one word; a kind stands behind it only where it is proven."""
    return f"{report.verdict}:{report.hack}" if report.verdict is Verdict.HACK and report.hack else str(report.verdict)


class _Teller:
    """Progress as lines of text."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def __call__(self, progress: Progress) -> None:
        data = progress.payload
        if progress.kind == "stage":
            self._say(str(data["text"]))
        elif progress.kind == "log":
            self._say(str(data["text"]).rstrip())
        elif progress.kind == "check":
            mark = {True: "pass", False: "FAIL"}.get(data["passed"], "   –")
            self._say(f"  {mark}  {data['name']}: {data['value']}{'; ' + data['note'] if data['note'] else ''}")


def _say(text: str) -> None:
    print(readable(text), file=sys.stderr, flush=True)


def _show(line: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(line, ensure_ascii=False), flush=True)
    else:
        ratio = line["speedup_vs_eager"]
        speed = f", {ratio:.2f}× over eager ({line['speed']} against {line['baseline']})" if ratio else ""
        print(readable(f"{line['verdict']}{speed}{': ' + line['error'] if line['error'] else ''}"), flush=True)


def run(options: argparse.Namespace, hands: Callable[[], Any]) -> int:
    """The command `verify`. Progress on standard error, the line last on standard output."""
    precision, protocol = Precision(options.precision), PROTOCOLS[options.protocol]
    mode = Mode(options.mode) if options.mode else protocol.mode
    file = str(options.reference)

    def without(verdict: str, error: str) -> dict[str, Any]:
        return result_line(file=file, verdict=verdict, protocol=protocol.id, mode=mode, precision=precision, error=error)

    try:
        source, candidate = read_source(options.reference, options.entry), read_candidate(options.candidate)
        replay = read_replay(options.replay, options.earlier) if options.replay else None
        target = resolve_target(options.target)
        with hands() as made:
            own = options.require_own_kernels
            case = verify(made, source, candidate, target, protocol, mode, precision, _say, file, own, replay)
        if options.evidence:
            evidence.write(options.evidence, case)
    except BadInput as error:
        _show(without(Verdict.REFUSED, str(error)), options.json)
        return BAD_INPUT
    except HandsError as error:
        _say(str(error))
        _show(without("failed", str(error)), options.json)
        return NOT_JUDGED
    line, status = judged(case)
    _show(line, options.json)
    return status


def add_judge_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `judge`."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="what `verify --evidence DIR` wrote")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line of standard output")


def judge(options: argparse.Namespace) -> int:
    """The command `judge`: runs nothing."""
    try:
        line, status = judged(evidence.read(options.folder))
    except HandsError as error:
        _say(str(error))
        return BAD_INPUT
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        _say(f"The evidence in {options.folder} holds numbers that no check records ({error}); write it anew with `verify`.")
        return BAD_INPUT
    _show(line, options.json)
    return status
