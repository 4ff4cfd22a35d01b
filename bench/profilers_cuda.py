"""The profilers on a CUDA device: do nsys, ncu and torch.profiler agree on the kernels' times, and do they name what bounds a
program.

python bench/profilers_cuda.py [--out FILE.md] [--seconds 450] [--only CLASS …]

Six programs of ours, each bound by one known thing (tests/gpu_runner/planted.py), run under each tool in the sandbox, as a
user's would. A tool that fails there is tried once more outside of it, for these programs are ours, so that one call tells
whether the tool or the boundary is the reason. Nothing is asserted; the exit status is 0.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.report import conditions, table
from gpu_runner.config import config
from gpu_runner.contracts import Limits, Mode, Precision, ProfileTask, Progress, Source
from gpu_runner.device import device_info, device_of, resolve_target
from gpu_runner.job import Job
from gpu_runner.profile import estimates, installed, ncu, nsys, tools
from gpu_runner.profile.collect import around, summarise
from gpu_runner.profile.collectors import Collectors
from gpu_runner.profile.counters import counters
from gpu_runner.profile.limits import Meter
from gpu_runner.profile.names import key, short
from gpu_runner.profile.reading import attach, finished, signature
from gpu_runner.profile.recording import ThisMachine, record_ncu, record_nsys
from gpu_runner.profile.subject import Subject, subject
from gpu_runner.profile.system import summarise_gpu
from gpu_runner.profile.trace import Trace
from gpu_runner.profile.verdicts import worth_counters
from gpu_runner.sandbox import recipe
from gpu_runner.session import Session
from tests.gpu_runner.planted import PLANTED, bound_by

LONG_NS, AGREE = 50_000, 0.10
EACH_S = 110.0  # of one program, all tools
CHILD = Path(__file__).resolve().parent.parent / "gpu_runner" / "child" / "main.py"


@dataclass
class Seen:
    """What one program came to. `times`: kernel to tool to nanoseconds; `classes`: which tools named what."""

    times: dict[str, dict[str, float]] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)
    sentences: dict[str, str] = field(default_factory=dict)
    steps: list[tuple[str, str, str, str]] = field(default_factory=list)  # tool, where, status, sentence


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("profilers_cuda.md"))
    parser.add_argument("--seconds", type=float, default=450)
    parser.add_argument("--only", nargs="*", choices=list(PLANTED), default=list(PLANTED))
    args = parser.parse_args()
    end = time.monotonic() + args.seconds
    target = resolve_target("cuda")
    seen: dict[str, Seen] = {}
    with Session() as session:
        for name in args.only:
            if end - time.monotonic() < EACH_S / 2:
                print(f"{name}: not run, the time is over", flush=True)
                continue
            print(f"{name} …", flush=True)
            seen[name] = Seen()
            try:
                measure(seen[name], PLANTED[name], target, session, end)
            except Exception:
                seen[name].steps.append(("all", "sandbox", "failed", traceback.format_exc().strip().splitlines()[-1]))
                traceback.print_exc()
            args.out.write_text(report(seen, target))  # after each: what is there is kept, whatever comes
    print(args.out.read_text() if seen else "", flush=True)
    return 0


def measure(seen: Seen, text: str, target: str, session: Session, end: float) -> None:
    """One program under every tool; fills `seen`."""
    device, nodes = device_of(target)
    limits = Limits(wall_s=min(EACH_S, end - time.monotonic()), memory_mib=16384)
    said: list[Progress] = []
    job = Job(device, limits, Mode.EVAL, Precision.AS_REFERENCE, said.append, lambda: False, nodes)
    task = ProfileTask(target=target, source=Source(text=text), candidate=None)
    session.learn_ceilings(job, target)
    work = estimates.work_of(session.counts(job, task.source), by_op=True)
    with subject(job, task, session) as program:
        collectors = Collectors(program)
        answer = collectors.torch()
        info = device_info(target)
        alone = summarise("reference", answer, info, "", work)[0]
        by_torch = json.loads(json.dumps(alone))
        estimates.attach_to_kernels(by_torch, work)
        judged(seen, "torch.profiler", by_torch)
        trace = collectors.nsys(answer["iterations"])
        seen.steps += [(step.tool, "sandbox", step.outcome.status, step.outcome.sentence) for step in collectors.done]
        if trace is None:
            trace = outside_nsys(seen, program, answer["iterations"])
        both = around(alone, summarise_gpu(trace)) if trace is not None and trace.gpu else alone
        wanted = worth_counters(both)[:2]
        before = len(collectors.done)
        found = collectors.ncu(wanted)
        seen.steps += [(step.tool, "sandbox", step.outcome.status, step.outcome.sentence) for step in collectors.done[before:]]
        if wanted and not found:
            found = outside_ncu(seen, program, wanted[0])
        for kernel in both["kernels"] if trace is not None else ():
            timed(seen, kernel["name"], "nsys", kernel["median_ns"])
        for name, values in found.items():
            if values["duration_ns"]:
                timed(seen, name, "ncu", values["duration_ns"])
        judged(seen, "nsys + ncu", attach(both, found) if found else both)
    session.forget(job, task.source)  # its memory on the device is wanted by the next


def timed(seen: Seen, name: str, tool: str, ns: float) -> None:
    seen.times.setdefault(signature(name), {}).setdefault(tool, ns)


def judged(seen: Seen, tool: str, summary: dict[str, Any]) -> None:
    done = finished(summary)
    if tool == "torch.profiler":
        for kernel in done["kernels"]:
            timed(seen, kernel["name"], "torch", kernel["median_ns"])
    seen.classes[tool] = bound_by([v["class"] for v in done["verdicts"]])
    seen.sentences[tool] = done["verdict"]["sentence"] + f" [{', '.join(v['class'] for v in done['verdicts'][:4])}]"


@contextmanager
def outside(program: Subject, iterations: int) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """(folder, the program's command) on this machine itself."""
    with TemporaryDirectory() as folder:
        here = Path(folder)
        for path, content in program.files.items():
            place = here / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content.encode() if isinstance(content, str) else content)
        order = program.order(iterations) | {"folder": folder, "threads": config().threads}
        order["packages"] = [*(str(path) for path in config().packages), *(p for p in sys.path if "site-packages" in p)]
        for name, memory in zip(order["memories"], program.memories(), strict=True):
            order[name]["path"] = f"/proc/{os.getpid()}/fd/{memory.fd}"
        (here / "order.json").write_text(json.dumps(order))
        yield here, (sys.executable, "-I", "-u", str(CHILD), "program", str(here / "order.json"))


def here_alone() -> ThisMachine:
    """This machine with the environment of a sandbox, which knows where the driver's libraries lie."""
    found = recipe.environment(config().threads)
    return ThisMachine({name: value for name, value in found.items() if name not in ("HOME", "TMPDIR")})


def outside_nsys(seen: Seen, program: Subject, iterations: int) -> Trace | None:
    if (tool := installed.nsys()) is None:
        return None
    with outside(program, iterations) as (here, command):
        path, outcome = record_nsys(tool.path, here / "nsys", command, here_alone())
        seen.steps.append(("nsys", "outside", outcome.status, outcome.sentence))
        return nsys.read_nsys(path, Meter()) if path is not None else None


def outside_ncu(seen: Seen, program: Subject, name: str) -> dict[str, dict[str, Any]]:
    if (tool := installed.ncu()) is None:
        return {}
    with outside(program, 1) as (here, command):
        pages, outcome = record_ncu(tool.path, here / "ncu", command, key(name), here_alone())
        seen.steps.append(("ncu", "outside", outcome.status, outcome.sentence))
        return counters(ncu.merge(ncu.read_ncu(page, Meter()) for page in pages)) if pages else {}


def report(seen: dict[str, Seen], target: str) -> str:
    """All that was seen, as Markdown."""
    parts = ["# Profilers on a CUDA device", f"{device_info(target).name}, {tool_versions()}. {conditions('torch')}"]
    rows: list[tuple[object, ...]] = []
    for name, one in seen.items():
        for tool in ("nsys + ncu", "torch.profiler"):
            found = one.classes.get(tool, "–")
            rows.append((name, tool, found, "yes" if found == name else "NO", one.sentences.get(tool, "")))
    parts += ["## What bounds each planted program", table(("planted", "by", "named", "right", "in its words"), rows)]
    lines = list(compared(seen))
    parts += [
        "## The same kernels' median times",
        table(("kernel", "nsys", "torch", "ncu", "torch − nsys", "ncu − nsys", ""), lines),
    ]
    long = [line for line in lines if line[-1] in ("agree", "DIFFER")]
    agree = sum(line[-1] == "agree" for line in long)
    told = f"Of kernels of {LONG_NS / 1000:.0f} µs and more, {agree} of {len(long)} agree within {AGREE:.0%}"
    parts.append(f"{told}; of shorter ones the offset is shown.")
    steps = [(name, *step) for name, one in seen.items() for step in one.steps]
    parts += ["## What each tool came to", table(("program", "tool", "where", "status", "why"), steps)]
    return "\n\n".join(parts) + "\n"


def compared(seen: dict[str, Seen]) -> Iterator[tuple[str, ...]]:
    """Rows of kernels that two tools saw."""
    for one in seen.values():
        for name, times in sorted(one.times.items(), key=lambda item: -max(item[1].values())):
            if len(times) < 2:
                continue
            base = times.get("nsys") or times["torch"]
            offsets = {tool: ns - base for tool, ns in times.items()}
            said = "offset"
            if base >= LONG_NS:
                said = "agree" if all(abs(ns) <= AGREE * base for ns in offsets.values()) else "DIFFER"
            shown = [f"{times[t] / 1000:.2f} µs" if t in times else "–" for t in ("nsys", "torch", "ncu")]
            away = [f"{offsets[t] / 1000:+.2f} µs" if t in times else "–" for t in ("torch", "ncu")]
            yield (short(name)[:50], *shown, *away, said)


def tool_versions() -> str:
    """The versions of driver and tools, and what an importer misses."""
    found = []
    for tool in (installed.nsys(), installed.ncu()):
        if tool is not None:
            done = subprocess.run([tool.path, "--version"], capture_output=True, text=True, check=False)
            found.append(f"{tool.path}: {tools.last_words(done.stdout).strip(' ()') or 'no version'}")
    nsys_tool = installed.nsys()
    for importer in tools.importers(Path(nsys_tool.path).resolve().parents[1]) if nsys_tool else ():
        done = subprocess.run(["ldd", str(importer)], capture_output=True, text=True, check=False)
        missing = tools.missing_libraries(done.stdout)
        found.append(f"{importer.name} misses {', '.join(missing) or 'nothing'}")
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
        found.append("driver " + subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip())
    return "; ".join(found)


if __name__ == "__main__":
    sys.exit(main())
