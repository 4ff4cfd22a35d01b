"""`python -m gpu_runner profile import FILE… | run FILE`: a report of nsys, ncu or torch.profiler as a
ProfileSummary, or that of a program which is profiled for it with all that this machine has.

Exit status 0; 2 with one sentence on standard error where a file cannot be used; 4 where a program could not be profiled; 5
where a report was to be read in the sandbox and this machine has none.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_runner.contracts import ProfileReport, ProfileTask
from gpu_runner.device import resolve_target
from gpu_runner.hands import HandsError
from gpu_runner.profile.exports import chrome_trace, speedscope
from gpu_runner.profile.limits import NO_SANDBOX, UnreadableProfile
from gpu_runner.profile.reading import read_profile
from gpu_runner.profile.sandboxed import read_sandboxed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    acts = parser.add_subparsers(dest="act", required=True, metavar="import | run")
    running = acts.add_parser("run", help="profile a program with all that this machine has")
    running.add_argument("reference", type=Path, metavar="FILE", help="the PyTorch program: a file with Model and get_inputs()")
    running.add_argument("--candidate", type=Path, metavar="PATH", help="profile this candidate for it instead")
    running.add_argument("--target", default="cpu", help="cpu, cuda (the first visible device), or an architecture: sm_90")
    running.add_argument("--entry", default="", help="the module class of the reference, when it is not called Model")
    running.add_argument("--fresh", action="store_true", help="measure also where a profile of it is kept")
    running.add_argument("--json", action="store_true", help="the whole summary (stitchweb.profile/1) instead of sentences")
    reading = acts.add_parser("import", help="read a report", description=__doc__)
    reading.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help=".sqlite, .json, .json.gz, .csv or .ncu-rep of one program"
    )
    reading.add_argument("--json", action="store_true", help="the whole summary (stitchweb.profile/1) instead of sentences")
    reading.add_argument("--range", default="", metavar="NAME", help="the NVTX range or annotation around each iteration")
    reading.add_argument("--warmup", type=int, default=0, metavar="N", help="leave out the first N of these ranges")
    reading.add_argument("--role", choices=["reference", "candidate"], default="reference")
    reading.add_argument("--sandbox", action="store_true", help="read it in the sandbox: the report of somebody else")
    reading.add_argument("--speedscope", type=Path, metavar="FILE", help="also write the flame view for speedscope")
    reading.add_argument("--perfetto", type=Path, metavar="FILE", help="also write a typical iteration for Perfetto")


def run(options: argparse.Namespace) -> int:
    """Reads the files, or profiles the program, and prints what they say."""
    if options.act == "run":
        return _run(options)
    try:
        if options.warmup < 0:
            raise UnreadableProfile("--warmup is a count of ranges: 0 or more.")
        read = read_sandboxed if options.sandbox else read_profile
        summary = read(options.files, role=options.role, range_name=options.range, warmup=options.warmup)
        for path, export in ((options.speedscope, speedscope), (options.perfetto, chrome_trace)):
            if path is not None:
                path.write_text(json.dumps(export(summary), ensure_ascii=False), encoding="utf-8")
    except (UnreadableProfile, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except HandsError as error:
        print(f"error: {error}", file=sys.stderr)
        return NO_SANDBOX
    _print(summary, options.json)
    return 0


def _print(summary: Mapping[str, Any], as_json: bool) -> None:
    print(json.dumps(summary, ensure_ascii=False, allow_nan=False) if as_json else "\n".join(told(summary)))


def _run(options: argparse.Namespace) -> int:
    from gpu_runner.local import LocalHands  # starts a pool of processes: not for --help
    from gpu_runner.verify import BadInput, read_candidate, read_source

    try:
        task = ProfileTask(
            target=resolve_target(options.target),
            source=read_source(options.reference, options.entry),
            candidate=read_candidate(options.candidate) if options.candidate else None,
            fresh=options.fresh,
        )
        with LocalHands() as hands:
            report = hands.perform(task, lambda progress: print(progress.payload.get("text", "").strip(), file=sys.stderr))
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except HandsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 4
    if not isinstance(report, ProfileReport) or report.summary is None:
        print(f"error: {getattr(report, 'reason', '')}", file=sys.stderr)
        return 4
    _print(report.summary, options.json)
    return 0


def told(summary: Mapping[str, Any]) -> list[str]:
    """The summary in a few lines."""
    source = summary["source"]
    lines = [
        f"{source['tool']} {source['tool_version']}".strip()
        + f", {source['status']}"
        + (f": {source['reason']}" if source["reason"] else "")
    ]
    lines += [f"{step['tool']}: {step['sentence'] or step['status']}" for step in summary.get("collectors") or ()]
    lines += [f"note: {warning}" for warning in source["warnings"]]
    for item in summary["verdicts"][:8]:
        most = f", at most {item['ceiling']:.2f}× faster without it" if (item["ceiling"] or 0.0) >= 1.005 else ""
        lines.append(f"{item['sentence']} [{item['confidence']} confidence{most}]")
    for kernel in summary["kernels"][:10]:
        share = f"{kernel['share_pct']:5.1f} %" if kernel["share_pct"] is not None else "       "
        lines.append(f"  {share}  {kernel['count']:6} × {(kernel['median_ns'] or 0) / 1e3:9.1f} µs  {kernel['short_name']}")
    return lines
