"""`python -m gpu_runner profile import FILE…`: a report of nsys, ncu or torch.profiler as a ProfileSummary.

Exit status 0, or 2 with one sentence on standard error where a file cannot be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_runner.profile.exports import chrome_trace, speedscope
from gpu_runner.profile.limits import UnreadableProfile
from gpu_runner.profile.reading import read_profile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    acts = parser.add_subparsers(dest="act", required=True, metavar="import")
    reading = acts.add_parser("import", help="read a report", description=__doc__)
    reading.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help=".sqlite, .json, .json.gz, .csv or .ncu-rep of one program"
    )
    reading.add_argument("--json", action="store_true", help="the whole summary (stitchweb.profile/1) instead of sentences")
    reading.add_argument("--range", default="", metavar="NAME", help="the NVTX range or annotation around each iteration")
    reading.add_argument("--warmup", type=int, default=0, metavar="N", help="leave out the first N of these ranges")
    reading.add_argument("--role", choices=["reference", "candidate"], default="reference")
    reading.add_argument("--speedscope", type=Path, metavar="FILE", help="also write the flame view for speedscope")
    reading.add_argument("--perfetto", type=Path, metavar="FILE", help="also write a typical iteration for Perfetto")


def run(options: argparse.Namespace) -> int:
    """Reads the files and prints what they say."""
    try:
        if options.warmup < 0:
            raise UnreadableProfile("--warmup is a count of ranges: 0 or more.")
        summary = read_profile(options.files, role=options.role, range_name=options.range, warmup=options.warmup)
        for path, export in ((options.speedscope, speedscope), (options.perfetto, chrome_trace)):
            if path is not None:
                path.write_text(json.dumps(export(summary), ensure_ascii=False), encoding="utf-8")
    except (UnreadableProfile, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(summary, ensure_ascii=False, allow_nan=False) if options.json else "\n".join(told(summary)))
    return 0


def told(summary: Mapping[str, Any]) -> list[str]:
    """The summary in a few lines."""
    source = summary["source"]
    lines = [
        f"{source['tool']} {source['tool_version']}".strip()
        + f", {source['status']}"
        + (f": {source['reason']}" if source["reason"] else "")
    ]
    lines += [f"note: {warning}" for warning in source["warnings"]]
    for item in summary["verdicts"][:8]:
        most = f", at most {item['ceiling']:.2f}× faster without it" if (item["ceiling"] or 0.0) >= 1.005 else ""
        lines.append(f"{item['sentence']} [{item['confidence']} confidence{most}]")
    for kernel in summary["kernels"][:10]:
        share = f"{kernel['share_pct']:5.1f} %" if kernel["share_pct"] is not None else "       "
        lines.append(f"  {share}  {kernel['count']:6} × {(kernel['median_ns'] or 0) / 1e3:9.1f} µs  {kernel['short_name']}")
    return lines
