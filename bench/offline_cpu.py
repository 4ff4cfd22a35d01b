"""The sixteen examples through the whole loop with the offline engineer, on this machine's CPU.

    python bench/offline_cpu.py [--minutes M] [--protocol strict|quick] [--out lines.jsonl] [--resume] [--readme] [name …]

One row per example: eager, the fastest torch.compile mode, ours, and the ratios with their 95 % intervals, as the final
protocol measured them. What is not significantly faster, refused or wrong counts 1.0 in the geometric mean. `--readme` also
writes the table between the markers of the front page.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from agents.benchmark import benchmark, keep_done, read_lines
from agents.state import Budget, Options
from bench.report import ROOT, conditions, show, table
from gpu_runner.contracts import PROTOCOLS
from gpu_runner.local import LocalHands

HEAD = ("example", "verdict", "eager ms", "compile ms", "ours ms", "over eager", "over compile")
START, END = "<!-- results:begin -->", "<!-- results:end -->"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="examples by name, without .py (default: all)")
    parser.add_argument("--minutes", type=float, default=60.0, help="for all of them")
    parser.add_argument("--protocol", choices=sorted(PROTOCOLS), default="strict")
    parser.add_argument(
        "--out", type=Path, default=Path("offline_cpu.jsonl"), help="one JSON line per example, written at once"
    )
    parser.add_argument("--resume", action="store_true", help="keep the lines that are there")
    parser.add_argument("--readme", action="store_true", help="write the table into README.md")
    options = parser.parse_args()

    root = ROOT / "examples"
    paths = [root / f"{name}.py" for name in options.names] or sorted(root.glob("*.py"))
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        parser.error(f"no such example: {', '.join(missing)}")
    done = keep_done(options.out) if options.resume and options.out.exists() else set()
    todo = [path for path in paths if path.name not in done]
    wish = Options(protocol=PROTOCOLS[options.protocol], budget=Budget(attempts=8, wall_s=None))
    mode = "a" if options.resume else "w"
    with options.out.open(mode, encoding="utf-8") as out, LocalHands() as hands:
        for line in benchmark(
            root, todo, wish, options.minutes * 60, [hands], lambda text: print(text, file=sys.stderr, flush=True)
        ):
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
            out.flush()
            print("  " + " | ".join(row(line)[1:]), file=sys.stderr, flush=True)
    wanted = {path.name for path in paths}
    lines = [line for line in read_lines(options.out) if line["file"] in wanted]
    rows = [row(line) for line in lines]
    show("Offline engineer on the CPU", HEAD, rows, "torch")
    print(f"\n{summary(lines)}")
    for line in lines:
        if line.get("error"):
            print(f"- {line['file']}: {line['error']}")
    if options.readme:
        write_readme(f"{table(HEAD, rows)}\n\n{summary(lines)}\n\n{conditions('torch')}")
    return 0


def row(line: dict[str, Any]) -> tuple[str, ...]:
    """The cells of one result line."""
    compiled = line.get("compile_ms") or {}
    return (
        line["file"].removesuffix(".py"),
        line["verdict"],
        milliseconds(line.get("eager_ms")),
        milliseconds(min(compiled.values()) if compiled else None),
        milliseconds(line.get("candidate_ms")),
        ratio(line.get("speedup_vs_eager"), line.get("ci_low"), line.get("ci_high")),
        ratio(line.get("speedup_vs_compile"), line.get("ci_compile_low"), line.get("ci_compile_high")),
    )


def milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def ratio(value: float | None, low: float | None, high: float | None) -> str:
    return "–" if value is None or low is None or high is None else f"{value:.2f}× ({low:.2f}–{high:.2f})"


def significant(line: dict[str, Any]) -> float | None:
    """The ratio over eager when it is a claim: verified, at least 1.05, its lower bound above 1."""
    value, low = line.get("speedup_vs_eager"), line.get("ci_low")
    return value if line["verdict"] == "verified" and value and low and value >= 1.05 and low > 1 else None


def summary(lines: list[dict[str, Any]]) -> str:
    """What the milestone asks: how many faster, refused, and the geometric mean with everything else at 1.0."""
    if not lines:
        return "Nothing was measured."
    faster = [value for line in lines if (value := significant(line))]
    mean = math.exp(sum(math.log(value) for value in faster) / len(lines))
    refused = sum(line["verdict"] == "refused" for line in lines)
    against = [line["speedup_vs_compile"] for line in lines if significant(line) and line.get("speedup_vs_compile")]
    protocols = ", ".join(sorted({line["protocol"] for line in lines}))
    counted = f"{len(faster)} of {len(lines)} significantly faster than eager, {refused} refused"
    text = f"Protocol {protocols}: {counted}; geometric mean over all {mean:.2f}×"
    if against:
        beside = math.exp(sum(math.log(value) for value in against) / len(against))
        text += f"; over the fastest torch.compile mode {beside:.2f}× (of the {len(against)} faster ones)"
    return text + "."


def write_readme(text: str) -> None:
    """Replace what stands between the two markers of README.md. Exits with a sentence when they are missing."""
    path = ROOT / "README.md"
    page = path.read_text(encoding="utf-8")
    if START not in page or END not in page:
        raise SystemExit(f"README.md has no lines {START} and {END} to write the table between; add them where it belongs.")
    before, rest = page.split(START, 1)
    after = rest.split(END, 1)[1]
    path.write_text(f"{before}{START}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
