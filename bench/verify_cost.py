"""What a verdict costs: seconds per candidate by part, beside a plain harness that does KernelBench's protocol.

    python bench/verify_cost.py [--protocol quick|strict …] [name …]

Each program is verified as a user would have it: build, check, time. *Cold*: nothing is there, neither a sandbox nor
baselines. *Warm*: another candidate of the same reference was verified before: sandboxes wait, baselines and calibrations
are known; the candidate itself is new. *Baselines anew*: as warm, but the machine had changed its speed since, and they were
measured once more. *Check* is the comparing and *timing* warm-up and rounds, both from the moment the
programs are loaded; the *sanitizers* and the *second process* of `strict` stand beside them; *overhead* is all the rest beyond
the build: processes, imports, reading of programs. Both sides build with the same commands, so the ratio is of check, timing
and overhead.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from agents.engineers.offline.coder import write_candidate
from agents.engineers.offline.planner import make_todos, regions_of
from bench.report import ROOT, show
from gpu_runner.contracts import (
    PROTOCOLS,
    AnalyseTask,
    Analysis,
    BuildTask,
    CandidateFiles,
    CheckReport,
    CheckTask,
    Progress,
    Protocol,
    Source,
    TimeTask,
    TimingReport,
)
from gpu_runner.contracts.candidate import MODEL_FILE
from gpu_runner.hacks.gallery import default_folder, entry_of
from gpu_runner.local import LocalHands
from gpu_runner.sandbox import template

NATIVE = ("openmp", "several_results")  # written by hand, of the gallery's honest programs
EXAMPLES = ("layernorm_gelu", "rmsnorm", "embedding_bag", "mlp", "unet_step")
TRIES = 3  # to have a candidate verified with the baselines that are known
HEAD = (
    "program", "how", "build s", "check s", "timing s", "overhead s", "these three s", "of plain", "sanitizers s",
    "second process s", "verdict",
)  # fmt: skip


@dataclass(frozen=True)
class Program:
    name: str
    source: Source
    candidate: CandidateFiles

    def another(self, word: str) -> CandidateFiles:
        """The same program as a new candidate: every file of it has another content."""
        files = self.candidate.files
        return CandidateFiles(files={path: f"{text}\n{_comment(path)} {word}\n" for path, text in files.items()})

    def plain(self) -> CandidateFiles:
        """Another candidate of the same reference: the reference itself, by its new name."""
        return CandidateFiles(files={MODEL_FILE: self.source.text + "\n\nclass ModelNew(Model):\n    pass\n"})


def _comment(path: str) -> str:
    return "#" if path.endswith((".py", ".toml")) else "//"


@dataclass
class Parts:
    """Seconds."""

    build: float
    check: float
    timing: float
    overhead: float
    verdict: str
    sanitizers: float = 0.0
    second: float = 0.0
    anew: bool = False  # the baselines were measured again, since eager is not as fast as it was when they were

    @property
    def compared(self) -> float:
        """What a plain harness does as well, in its way."""
        return self.check + self.timing + self.overhead


class Clock:
    """When each stage of a task was told."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, float]] = []

    def __call__(self, progress: Progress) -> None:
        if progress.kind == "stage":
            self.stages.append((str(progress.payload["text"]), time.perf_counter()))

    def since(self, word: str, end: float) -> float:
        """Seconds from the first stage that begins with `word` to `end`; 0 where there was none."""
        return next((end - at for text, at in self.stages if text.startswith(word)), 0.0)


def offline(hands: LocalHands, name: str) -> Program:
    """What the offline engineer writes for an example."""
    source = Source(text=(ROOT / "examples" / f"{name}.py").read_text())
    report = hands.perform(AnalyseTask(target="cpu", source=source, protocol=PROTOCOLS["quick"]))
    if not isinstance(report, Analysis) or report.graph is None:
        raise SystemExit(f"The example {name} has no graph to write kernels from.")
    view, regions = regions_of(report)
    todos, _ = make_todos(report)
    wanted = {key for todo in todos[:1] for key in todo.data["regions"]}
    chosen = [region for region in regions if region.key in wanted]
    return Program(name, source, write_candidate(source.text, report.entry or "Model", view, chosen, "eval"))


def by_hand(name: str) -> Program:
    """A native program of the gallery."""
    folder = default_folder()
    entry = entry_of(folder / "programs" / "honest" / "native" / f"{name}.py", folder)
    return Program(f"{entry.reference}, {name}", entry.source, entry.candidate)


def verified(hands: LocalHands, program: Program, candidate: CandidateFiles, protocol: Protocol) -> Parts:
    """One candidate, as the loop does it: build, check, time."""
    common: dict[str, Any] = {"target": "cpu", "source": program.source, "candidate": candidate, "protocol": protocol}
    started = time.perf_counter()
    hands.perform(BuildTask(target="cpu", candidate=candidate))
    built = time.perf_counter()
    clock = Clock()
    check = hands.perform(CheckTask(**common), clock)
    checked = time.perf_counter()
    sanitizers = clock.since("watching memory", checked)
    comparing = clock.since("comparing", checked) - sanitizers
    clock = Clock()
    timing = hands.perform(TimeTask(**common), clock)
    ended = time.perf_counter()
    if not isinstance(check, CheckReport) or not isinstance(timing, TimingReport):
        raise SystemExit("The hands answered with other reports.")
    second = clock.since("once more in fresh", ended)
    measuring = clock.since("warming up", ended) - second
    overhead = ended - built - comparing - measuring - sanitizers - second
    ratio = f" {timing.over_baseline.value:.2f}×" if timing.over_baseline else ""
    said = f"{check.verdict}, {timing.speed}{ratio}"
    anew = any(text.startswith("eager is not as fast as") for text, _ in clock.stages)
    return Parts(built - started, comparing, measuring, overhead, said, sanitizers, second, anew)


def harness(program: Program) -> Parts:
    """The same candidate by the plain harness."""
    with tempfile.TemporaryDirectory() as made:
        folder, reference = Path(made, "candidate"), Path(made, "reference.py")
        reference.write_text(program.source.text)
        for path, text in program.another("plain").files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        command = [sys.executable, str(ROOT / "bench" / "plain_harness.py"), str(reference), str(folder)]
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wall = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"The plain harness failed on {program.name}:\n{done.stderr[-2000:]}")
    said = json.loads(done.stdout)
    took, ms = said["seconds"], said["ms"]
    # The import of torch is in it, as in ours; that of our building commands is not.
    overhead = wall - sum(took[name] for name in ("build", "check", "timing", "imports"))
    word = f"{said['right']}/{said['of']} right, {ms['eager'] / ms['candidate']:.2f}×"
    return Parts(took["build"], took["check"], took["timing"], overhead, word)


def row(program: Program, how: str, parts: Parts, plain: Parts) -> tuple[str, ...]:
    seconds = (parts.build, parts.check, parts.timing, parts.overhead, parts.compared)
    beside = (f"{s:.2f}" if s else "" for s in (parts.sanitizers, parts.second))
    ratio = f"{parts.compared / plain.compared:.2f}"
    return (program.name, how, *(f"{s:.2f}" for s in seconds), ratio, *beside, parts.verdict)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", help=f"examples, or native programs of the gallery (default: {', '.join(EXAMPLES + NATIVE)})"
    )
    parser.add_argument("--protocol", choices=("quick", "strict"), action="append", help="default: both")
    options = parser.parse_args()
    names = options.names or [*EXAMPLES, *NATIVE]
    wanted = {name: PROTOCOLS[name] for name in options.protocol or ("quick", "strict")}
    rows = []
    with LocalHands() as hands:
        programs = [offline(hands, name) if (ROOT / "examples" / f"{name}.py").is_file() else by_hand(name) for name in names]
    for program in programs:
        plain = harness(program)
        rows.append(row(program, "plain harness", plain, plain))
        for name, protocol in wanted.items():
            for kind in template.WITH_TORCH:
                template.shared(kind).close()
            with LocalHands() as hands:
                rows.append(
                    row(program, f"{name}, cold", verified(hands, program, program.another(f"{name} cold"), protocol), plain)
                )
                verified(hands, program, program.plain(), protocol)
                for number in range(TRIES):  # what measures the baselines anew did not know them: a row of its own
                    parts = verified(hands, program, program.another(f"{name} warm {number}"), protocol)
                    rows.append(row(program, f"{name}, {'baselines anew' if parts.anew else 'warm'}", parts, plain))
                    if not parts.anew:
                        break
            print(*(" | ".join(r) for r in rows), sep="\n", file=sys.stderr, flush=True)
    show("What a verdict costs", HEAD, rows, "torch")
    return 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        os.environ["RUNNER_CACHE_DIR"] = cache  # nothing is known from before, and nothing of this is kept
        sys.exit(main())
