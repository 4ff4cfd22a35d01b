"""How often a timing claims a difference that is not there, and how often it misses one that is.

    python bench/claims.py [--same 200] [--tenth 100] [--protocol quick|strict] [--busy] [--minutes M] [--raw FILE]
    python bench/claims.py --read FILE

The same program as reference and candidate (A/A), and a candidate that does 10 of the reference's 11 equal parts (a true
1.10×). Each comparison is what a verification does: warm-up, rounds, the claim's rule; the processes are kept, compile arms and
second process left out. The two kinds take turns, so that a noisy hour is in both. `--raw` adds the samples to a file, a line
per comparison; `--read` measures nothing, and judges all that a file has by the rules as they are now: they are pure. `--busy`:
beside a neighbour that burns a core in bursts of 0 to 200 ms, half of the time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.report import quantile, show
from gpu_runner.contracts import PROTOCOLS, Limits, Mode, Precision, Protocol, Source, Speed, TimingReport
from gpu_runner.evidence import recorded, speed_evidence
from gpu_runner.job import Job
from gpu_runner.judging import JudgePeer
from gpu_runner.peers import CandidatePeer, Program, ReferencePeer
from gpu_runner.rounds import Bench, cores
from gpu_runner.speed import timing_report
from gpu_runner.timed import CANDIDATE, EAGER, SpeedEvidence
from gpu_runner.tolerances import tolerances
from gpu_runner.values import closing

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        for part in PARTS:
            torch.tanh(x[part], out=out[part])
            for _ in range(AGAIN):
                torch.tanh(out[part], out=out[part])
        return out


def get_inputs():
    return [torch.randn(10, 64, 2048)]


def get_init_inputs():
    return []
"""
# The parts must be nearly all of a call: new pages for the result are the same on both sides, and are no part of 10 or 11.
PROGRAM = PROGRAM.replace("AGAIN", "7")
TEN, ELEVEN = "range(10)", "(*range(10), 0)"  # the eleventh part is the first once more
HEAD = ("comparison", "trials", "called faster", "called slower", "ratio, 5th to 95th", "interval, half")
SLACK = [1e-5]  # both sides compute the same
NEIGHBOUR = """
import random, time
while True:
    end = time.monotonic() + random.uniform(0, 0.2)
    while time.monotonic() < end:
        pass
    time.sleep(random.uniform(0, 0.2))
"""


class Kind:
    """Comparisons of one reference with the candidate of ten parts, in processes that are kept."""

    def __init__(self, name: str, parts: str, protocol: Protocol, stack: ExitStack) -> None:
        self.name, self.protocol = name, protocol
        self.reports: list[TimingReport] = []
        self.job = Job("cpu", Limits(wall_s=24 * 3600), Mode.EVAL, Precision.AS_REFERENCE, lambda _: None, lambda: False)
        source = Source(text=PROGRAM.replace("PARTS", parts))
        text = PROGRAM.replace("PARTS", TEN).replace("class Model(", "class ModelNew(")
        self.reference = stack.enter_context(ReferencePeer.start(self.job, source))
        self.judge = stack.enter_context(JudgePeer.start(self.job))
        self.candidate = stack.enter_context(CandidatePeer.start(self.job, {"model_new.py": text}))
        self.candidate.load(self.reference.facts["init_inputs"])
        with closing(weights := self.reference.weights()):
            self.candidate.load_weights(weights)

    def compare(self) -> SpeedEvidence:
        """One comparison, as a verification does it."""
        arms: dict[str, Program] = {EAGER: self.reference, CANDIDATE: self.candidate}
        rtol = tolerances(self.protocol, self.job.precision)
        bench = Bench(self.job, self.protocol, self.reference, arms, self.judge, rtol, SLACK)
        with contextlib.closing(bench):
            bench.warm_up()
            bench.measure()
        evidence = SpeedEvidence(self.protocol, self.job.precision, samples=bench.samples, busy=bench.busy)
        evidence.conditions, evidence.cores = bench.conditions, cores()
        evidence.facts = {"kind": self.name, "disturbed": bench.disturbed, "retaken": bench.retaken}
        self.reports.append(timing_report(evidence))
        return evidence


def row(name: str, reports: list[TimingReport]) -> tuple[object, ...]:
    """The cells of one kind of comparison."""
    words = Counter(report.speed for report in reports)
    ratios = [report.over_eager.value for report in reports if report.over_eager]
    widths = [(r.over_eager.high - r.over_eager.low) / 2 / r.over_eager.value for r in reports if r.over_eager]
    spread = f"{quantile(ratios, 0.05):.3f} to {quantile(ratios, 0.95):.3f}"
    shares = (f"{words[word]} ({words[word] / len(reports):.1%})" for word in (Speed.FASTER, Speed.SLOWER))
    return (name, len(reports), *shares, spread, f"{quantile(widths, 0.5):.1%}")


def reread(path: Path) -> int:
    """The table of a file's comparisons, by kind and protocol."""
    found: dict[tuple[str, str], list[TimingReport]] = {}
    for line in path.read_text().splitlines():
        evidence = speed_evidence(json.loads(line))
        found.setdefault((evidence.facts["kind"], evidence.protocol.id), []).append(timing_report(evidence))
    rows = [row(f"{name}, {protocol}", reports) for (name, protocol), reports in found.items()]
    show("Claims of recorded comparisons", HEAD, rows, "torch")
    return 0


@contextmanager
def neighbour(wanted: bool) -> Iterator[None]:
    """A process that gets in the way."""
    if not wanted:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", NEIGHBOUR])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--same", type=int, default=200, help="comparisons of a program with itself")
    parser.add_argument("--tenth", type=int, default=100, help="comparisons with a true ratio of 1.10")
    parser.add_argument("--protocol", choices=("quick", "strict"), default="strict")
    parser.add_argument("--busy", action="store_true", help="beside a bursty neighbour")
    parser.add_argument("--raw", type=Path, help="append the samples there, one JSON line per comparison")
    parser.add_argument("--minutes", type=float, default=25.0, help="for both kinds together")
    parser.add_argument("--read", type=Path, metavar="FILE", help="judge what --raw wrote, of one call or several")
    options = parser.parse_args()
    if options.read:
        return reread(options.read)
    protocol = PROTOCOLS[options.protocol]
    with neighbour(options.busy), ExitStack() as stack:
        raw = stack.enter_context(options.raw.open("a")) if options.raw else None
        wanted = {"the same program": options.same, "a true 1.10×": options.tenth}
        kinds = [Kind(name, parts, protocol, stack) for name, parts in zip(wanted, (TEN, ELEVEN), strict=True) if wanted[name]]
        until = time.monotonic() + 60 * options.minutes
        while time.monotonic() < until:
            left = [kind for kind in kinds if len(kind.reports) < wanted[kind.name]]
            if not left:
                break
            kind = max(left, key=lambda kind: 1 - len(kind.reports) / wanted[kind.name])
            started = time.monotonic()
            evidence = kind.compare()
            if raw:
                print(json.dumps(recorded(evidence)), file=raw, flush=True)
            said = f"{kind.name} {len(kind.reports)}/{wanted[kind.name]}: {kind.reports[-1].sentence}"
            print(f"{said} {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)
        rows = [row(kind.name, kind.reports) for kind in kinds if kind.reports]
    show(f"Claims under the protocol {protocol.id}{', busy neighbour' if options.busy else ''}", HEAD, rows, "torch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
