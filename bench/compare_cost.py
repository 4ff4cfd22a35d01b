"""What the judge's comparison of large results costs, beside what it cost at another revision of this repository.

    python bench/compare_cost.py [CASE ...] [--before REVISION] [--mib 64] [--rounds 10]

Each case is one request to the judge, as a check makes it, on a float32 result of so many MiB with a truth in double precision.
Each revision has a process of its own; they answer the same request in turn, so many times, and the least time of each counts:
what else runs on the machine only adds. Their numbers are held against each other: equal to the last bit, or near, where sums
are rounded in another order. *Memory*: the most that the process held beyond what it compared.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.report import ROOT, show

CASES = ("inexact", "equal", "one wrong", "not finite", "steep", "no truth", "indices", "trivial programs")
HEAD = ("case", "before, ms", "now, ms", "times as fast", "CPU, ms", "now, ms", "memory, MiB", "now, MiB", "numbers")
NEAR = 1e-12  # of sums, which may be rounded in another order


def package(folder: Path) -> Any:
    """The child's code of a checkout, by a name of its own."""
    spec = importlib.util.spec_from_file_location("child", folder / "__init__.py", submodule_search_locations=[str(folder)])
    if spec is None or spec.loader is None:
        raise SystemExit(f"{folder} holds no package.")
    module = importlib.util.module_from_spec(spec)
    sys.modules["child"] = module
    spec.loader.exec_module(module)
    return module


def values(case: str, mib: float) -> dict[str, Any]:
    """Results, truth and inputs of a case, by the names of the judge's requests."""
    import torch

    generator = torch.Generator().manual_seed(1)
    count = int(mib * 2**18)
    truth = torch.randn(count, generator=generator, dtype=torch.float64)
    if case == "steep":
        truth = truth.mul_(6.0).exp_()
    eager = truth.float()
    if case == "indices":
        eager = (eager * 1000.0).to(torch.int32)
        return {"candidate": eager.clone().index_fill_(0, torch.tensor([count // 2]), 7), "eager": eager}
    if case == "trivial programs":
        return {"inputs": torch.rand(count, generator=generator), "eager": eager, "truth": truth}
    candidate = eager.clone() if case in ("equal", "one wrong") else eager * (1.0 + 1e-7)
    if case == "one wrong":
        candidate[count // 2] += 1.0
    if case == "not finite":
        candidate[::1000], eager[::1000] = math.inf, math.inf
    found = {"candidate": candidate, "eager": eager}
    return found if case == "no truth" else found | {"truth": truth}


def serve(folder: Path, case: str, mib: float) -> None:
    """Answer each line of the standard input with one request's `seconds`, `cpu`, `memory` in MiB, `numbers`."""
    package(folder)
    judge, tensors, main = (importlib.import_module(f"child.{name}") for name in ("judge", "tensors", "main"))
    main.settle_allocator()
    given = values(case, mib)
    fds: list[int] = []
    payload: dict[str, Any] = {"rtol": {"float32": 1e-4}, "slack_ratio": 10.0, "fds": list(given)}
    for name, value in given.items():
        fds.append(os.memfd_create(name))
        os.ftruncate(fds[-1], value.numel() * value.element_size())
        payload[name] = tensors.write([value], fds[-1])
    mapped = sum(payload[name]["bytes"] for name in given)
    given.clear()
    kind = "nulls" if case == "trivial programs" else "compare"

    def request() -> Any:
        return judge.handle(kind, payload, [os.dup(fd) for fd in fds], print)

    for _ in sys.stdin:
        print(json.dumps(_measured(mapped, request)), flush=True)


def _measured(mapped: int, work: Callable[[], Any]) -> dict[str, Any]:
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, started, cpu = _status("VmRSS"), time.perf_counter(), time.process_time()
    numbers = work()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    memory = (_status("VmHWM") - before - mapped) / 2**20
    return {"seconds": seconds, "cpu": cpu, "memory": memory, "numbers": numbers}


def _status(name: str) -> int:
    """Bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))


def started(folder: Path, case: str, options: argparse.Namespace) -> subprocess.Popen[str]:
    """A process that runs `serve`."""
    command = [sys.executable, "-W", "ignore", __file__, "--serve", str(folder), case, "--mib", str(options.mib)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def asked(process: subprocess.Popen[str]) -> dict[str, Any]:
    """One request's answer."""
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise SystemExit("The process that compares has ended; what it wrote stands above.")
    found: dict[str, Any] = json.loads(line)
    return found


def same(a: Any, b: Any) -> bool:
    """Whether two answers say the same."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return math.isclose(a, b, rel_tol=NEAR) if isinstance(a, float) and isinstance(b, float) else bool(a == b)


def row(case: str, before: Path, now: Path, options: argparse.Namespace) -> tuple[str, ...]:
    with started(before, case, options) as old, started(now, case, options) as new:
        rounds = [(asked(old), asked(new)) for _ in range(options.rounds)]
        for process in (old, new):
            if process.stdin:
                process.stdin.close()
    best = {key: [min(pair[side][key] for pair in rounds) * 1e3 for side in (0, 1)] for key in ("seconds", "cpu")}
    memory = [max(pair[side]["memory"] for pair in rounds) for side in (0, 1)]
    numbers = [answer["numbers"] for pair in rounds for answer in pair]
    near = all(same(answer, numbers[0]) for answer in numbers)
    word = "equal" if all(answer == numbers[0] for answer in numbers) else "near" if near else "other"
    was, is_now = best["seconds"]
    times = (*(f"{x:.2f}" for x in best["seconds"]), f"{was / is_now:.2f}", *(f"{x:.2f}" for x in best["cpu"]))
    return (case, *times, *(f"{m:.0f}" for m in memory), word)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"default: {', '.join(CASES)}")
    parser.add_argument("--before", default="HEAD", help="a revision of this repository")
    parser.add_argument("--mib", type=float, default=64.0, help="of the float32 result")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.cases[0], options.mib)
        return 0
    with tempfile.TemporaryDirectory() as made:
        archive = subprocess.run(
            ["git", "-C", ROOT, "archive", options.before, "gpu_runner/child"], stdout=subprocess.PIPE, check=True
        )
        subprocess.run(["tar", "-x", "-C", made], input=archive.stdout, check=True)
        before, now = Path(made, "gpu_runner/child"), ROOT / "gpu_runner/child"
        rows = [row(case, before, now, options) for case in options.cases or CASES]
    show(f"What comparing {options.mib:g} MiB costs", HEAD, rows, "torch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
