"""How often a timing claims a difference that is not there, and how often it misses one that is.

    python bench/claims.py [--same 200] [--tenth 100] [--protocol quick|strict] [--busy] [--minutes M]

The same program as reference and candidate (A/A), and a candidate that does 10 of the reference's 11 equal parts (a true
1.10×). Each comparison is what a verification does: warm-up, rounds, the claim's rule; the processes are kept, compile arms and
second process left out. `--busy`: beside a neighbour that burns a core in bursts of 0 to 200 ms, half of the time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.report import quantile, show
from gpu_runner.contracts import PROTOCOLS, Limits, Mode, Precision, Protocol, Source, Speed, TimingReport
from gpu_runner.peers import CandidatePeer, Job, JudgePeer, ReferencePeer, tolerances
from gpu_runner.rounds import Bench
from gpu_runner.speed import CANDIDATE, EAGER, SpeedEvidence, timing_report
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
        return out


def get_inputs():
    return [torch.randn(10, 64, 2048)]


def get_init_inputs():
    return []
"""
TEN, ELEVEN = "range(10)", "(*range(10), 0)"  # the eleventh part is the first once more
SLACK = [1e-5]  # both sides compute the same
NEIGHBOUR = """
import random, time
while True:
    end = time.monotonic() + random.uniform(0, 0.2)
    while time.monotonic() < end:
        pass
    time.sleep(random.uniform(0, 0.2))
"""


def comparisons(name: str, parts: str, count: int, protocol: Protocol, until: float) -> list[TimingReport]:
    """Up to `count` comparisons of the reference of `parts` with the candidate of ten, as many as time allows."""
    job = Job("cpu", Limits(wall_s=24 * 3600), Mode.EVAL, Precision.AS_REFERENCE, lambda _: None, lambda: False)
    source = Source(text=PROGRAM.replace("PARTS", parts))
    text = PROGRAM.replace("PARTS", TEN).replace("class Model(", "class ModelNew(")
    reports: list[TimingReport] = []
    with (
        ReferencePeer.start(job, source) as reference,
        JudgePeer.start(job) as judge,
        CandidatePeer.start(job, {"model_new.py": text}) as candidate,
    ):
        candidate.load(reference.facts["init_inputs"])
        with closing(weights := reference.weights()):
            candidate.load_weights(weights)
        arms = {EAGER: reference, CANDIDATE: candidate}
        while len(reports) < count and time.monotonic() < until:
            rtol = tolerances(protocol, job.precision)
            bench = Bench(job, protocol, reference, dict(arms), judge, rtol, SLACK)
            bench.warm_up()
            bench.measure()
            bench.close()
            reports.append(timing_report(SpeedEvidence(protocol, job.precision, samples=bench.samples)))
            print(f"{name} {len(reports)}/{count}: {reports[-1].sentence}", file=sys.stderr, flush=True)
    return reports


def row(name: str, reports: list[TimingReport]) -> tuple[object, ...]:
    """The cells of one kind of comparison."""
    words = Counter(report.speed for report in reports)
    ratios = [report.over_eager.value for report in reports if report.over_eager]
    widths = [(r.over_eager.high - r.over_eager.low) / 2 / r.over_eager.value for r in reports if r.over_eager]
    spread = f"{quantile(ratios, 0.05):.3f} to {quantile(ratios, 0.95):.3f}"
    shares = (f"{words[word]} ({words[word] / len(reports):.1%})" for word in (Speed.FASTER, Speed.SLOWER))
    return (name, len(reports), *shares, spread, f"{quantile(widths, 0.5):.1%}")


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
    parser.add_argument("--minutes", type=float, default=60.0, help="for both kinds together, shared by their counts")
    options = parser.parse_args()
    protocol = PROTOCOLS[options.protocol]
    rows = []
    with neighbour(options.busy):
        start, total = time.monotonic(), max(1, options.same + options.tenth)
        for name, parts, count, share in (
            ("the same program", TEN, options.same, options.same / total),
            ("a true 1.10×", ELEVEN, options.tenth, 1.0),
        ):
            if count:
                reports = comparisons(name, parts, count, protocol, start + 60 * options.minutes * share)
                rows.append(row(name, reports))
    head = ("comparison", "trials", "called faster", "called slower", "ratio, 5th to 95th", "interval, half")
    show(f"Claims under the protocol {protocol.id}{', busy neighbour' if options.busy else ''}", head, rows, "torch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
