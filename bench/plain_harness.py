"""What a plain harness does with one candidate: KernelBench's protocol in one process, without a boundary and without doubts.

    python bench/plain_harness.py reference.py folder-of-the-candidate

Five correctness trials under seeds that follow from 42, reference and candidate in the same process on the same inputs,
`allclose` with 1e-4; then 3 warm-up and 100 timed calls of each on one set of inputs, the caches emptied before every call.
Prints one JSON object: seconds of each part, medians in milliseconds. The kernels are built with our own commands, by hand.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TRIALS, WARM_UP, RUNS, TOLERANCE = 5, 3, 100, 1e-4


def build(folder: Path, own: dict[str, float]) -> float:
    """Compiles the candidate's kernels where it looks for them. Seconds; what importing our commands took goes into `own`: no
    plain harness does that."""
    sys.path.insert(0, str(ROOT))
    started = time.perf_counter()
    from gpu_runner.build_commands import plan
    from gpu_runner.contracts.candidate import LIBRARY_FILE
    from gpu_runner.verify import read_candidate

    own["imports"] = time.perf_counter() - started
    started = time.perf_counter()
    candidate = read_candidate(folder)
    if candidate.kernel_sources:
        with tempfile.TemporaryDirectory() as out:
            made = plan(candidate, "cpu", out)
            for command in (*(command for _, command in made.compile), made.link):
                subprocess.run(command, cwd=folder, check=True, capture_output=True)
            shutil.copy(made.library, folder / LIBRARY_FILE)
    return time.perf_counter() - started


def main() -> None:
    reference, folder = Path(sys.argv[1]), Path(sys.argv[2])
    own: dict[str, float] = {}
    seconds = {"build": build(folder, own)}
    started = time.perf_counter()
    import torch

    seconds["import torch"] = time.perf_counter() - started
    started = time.perf_counter()
    theirs: dict[str, Any] = {"__file__": str(reference), "__name__": "reference"}
    exec(compile(reference.read_text(), str(reference), "exec"), theirs)
    ours: dict[str, Any] = {"__file__": str(folder / "model_new.py"), "__name__": "model_new"}
    exec(compile((folder / "model_new.py").read_text(), str(folder / "model_new.py"), "exec"), ours)
    model, candidate, inputs = theirs["Model"], ours["ModelNew"], theirs["get_inputs"]
    given = theirs.get("get_init_inputs", list)()

    def made(cls: Any) -> Any:
        torch.manual_seed(42)
        return cls(*given).eval()

    right, pair = 0, {"eager": made(model), "candidate": made(candidate)}
    torch.manual_seed(42)
    with torch.no_grad():
        for seed in [int(torch.randint(0, 2**31, (1,))) for _ in range(TRIALS)]:
            torch.manual_seed(seed)
            x = inputs()
            wanted, seen = (arm(*x) for arm in pair.values())
            pairs = zip(leaves(wanted), leaves(seen), strict=True)
            right += all(torch.allclose(a, b, atol=TOLERANCE, rtol=TOLERANCE) for a, b in pairs)
    seconds["check"] = time.perf_counter() - started
    started = time.perf_counter()
    sweep = torch.zeros(largest_cache() // 2, dtype=torch.int32)  # twice the cache
    torch.manual_seed(42)
    x, medians = inputs(), {}
    with torch.no_grad():
        for name, arm in pair.items():
            taken = []
            for _ in range(WARM_UP + RUNS):
                sweep.add_(1)
                start = time.perf_counter()
                arm(*x)
                taken.append(time.perf_counter() - start)
            medians[name] = 1e3 * statistics.median(taken[WARM_UP:])
    seconds["timing"] = time.perf_counter() - started
    print(json.dumps({"seconds": seconds | own, "right": right, "of": TRIALS, "ms": medians}))


def leaves(value: Any) -> list[Any]:
    """The tensors of a result, in order."""
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value)]
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, tuple | list) else [value]


def largest_cache() -> int:
    """Bytes of the last-level cache."""
    from gpu_runner.device import llc_bytes

    return llc_bytes()


if __name__ == "__main__":
    main()
