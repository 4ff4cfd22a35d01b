"""What the offline engineer writes for this GPU, program by program, without the Verifier: a first look at right and fast.

    python bench/gpu_programs.py [--seconds 480] [--jobs 8] [--out rows.jsonl] [--only TEXT] [--compile MODE …] [folder]

For each program of the folder (default: bench/suite) up to five candidates: its kernels alone, its replay as one CUDA graph
alone, and both; kernels and both again with convolutions on channels-last tensors ("last"). Each is compared with eager on
fresh inputs, call after call, results and state, and against float64 (error ratio: root mean square error by eager's own, the
largest of any tensor), and timed beside eager and the reference compiled in each MODE of torch.compile. As many programs as
there are jobs are written, built and compiled side by side; then one after the other has the GPU to itself, for two programs at
once are timed in slices of each other. Programs run here without a sandbox: give it nothing but files of your own. Needs torch,
pydantic and nvcc.
"""

from __future__ import annotations

import argparse
import copy
import fcntl
import importlib.util
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
BREATH_S = 0.5  # in which whoever still has to compile comes to the lock
NOTHING = 1e-6  # of the size of what is kept beside it: a number that is rounding errors alone, whose error says nothing
CALLS = 4  # with fresh inputs: the first runs as it is, the second is captured, the rest are replayed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "bench" / "suite")
    parser.add_argument("--seconds", type=float, default=480.0, help="no program is begun after this")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("gpu_programs.jsonl"))
    parser.add_argument("--only", default="", help="programs whose path contains one of these texts, with commas between them")
    parser.add_argument("--compile", nargs="+", default=[], metavar="MODE", help="default, reduce-overhead …")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(work(options.one, options.compile)))
        return 0
    until = time.monotonic() + options.seconds
    paths = [
        path for path in sorted(options.folder.rglob("*.py")) if any(text in str(path) for text in options.only.split(","))
    ]

    def child(path: Path) -> dict[str, Any]:
        if time.monotonic() > until:
            return {"file": path.name, "error": "not begun: the time was over"}
        command = [sys.executable, str(Path(__file__)), "--one", str(path)]
        command += ["--compile", *options.compile] if options.compile else []
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=240)
            return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else failure(path, done.stderr)
        except subprocess.TimeoutExpired:
            return failure(path, "it took more than 240 s")

    rows = []
    with ThreadPoolExecutor(options.jobs) as pool, options.out.open("w", encoding="utf-8") as out:
        for first in range(0, len(paths), options.jobs):
            for row in pool.map(child, paths[first : first + options.jobs]):
                rows.append(row)
                out.write(json.dumps(row) + "\n")
                out.flush()
                show(row)
    best = [best_of(row) for row in rows]
    wrong = sum(not c.get("right", False) for row in rows for c in row.get("candidates", {}).values())
    broken = sum("error" in row for row in rows)
    said = (
        f"{len(rows)} programs, {broken} not measured, {wrong} candidates wrong; geometric mean over eager {mean_of(best):.2f}×"
    )
    if options.compile:
        over = [best_of(row) / max(1.0, *row["compiled"].values()) for row in rows if row.get("compiled")]
        said += (
            f", over the best of eager and torch.compile {mean_of(over):.2f}×, above 1.05 of it {sum(x > 1.05 for x in over)}"
        )
    print(said)
    return 0


def best_of(row: dict[str, Any]) -> float:
    """The right candidate that is fastest, over eager; 1 where none is faster, for then the reference stays."""
    return max([1.0, *(c["speedup"] for c in row.get("candidates", {}).values() if c.get("right"))])


def mean_of(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / max(1, len(ratios)))


def failure(path: Path, text: str) -> dict[str, Any]:
    return {"file": path.name, "error": text.strip()[-600:]}


def show(row: dict[str, Any]) -> None:
    if "error" in row:
        print(f"{row['file']:<36} {row['error'].splitlines()[-1][:90] if row['error'] else ''}", flush=True)
        return
    parts = []
    for name, c in row["candidates"].items():
        said = c["error"][-60:] if "error" in c else f"{c['speedup']:.2f}×{'' if c['right'] else ' WRONG'} ({c['ratio']:.2g})"
        parts.append(f"{name} {said}")
    parts += [f"compiled, {mode} {ratio:.2f}×" for mode, ratio in row.get("compiled", {}).items()]
    print(f"{row['file']:<36} {row['eager_ms']:8.3f} ms  {'; '.join(parts) or 'nothing planned'}", flush=True)


def work(path: Path, modes: list[str]) -> dict[str, Any]:
    """The row of one program. Whatever fails before a candidate is reached comes out."""
    with open(Path(tempfile.gettempdir()) / "gpu_programs.lock", "w") as using:
        fcntl.flock(using, fcntl.LOCK_SH)  # nobody measures while anybody prepares
        space, modules, reason = prepare(path)
        compiled = {mode: compile_reference(space, mode) for mode in modes}
        fcntl.flock(using, fcntl.LOCK_UN)
        time.sleep(BREATH_S)
        fcntl.flock(using, fcntl.LOCK_EX)
        return measure(path, space, modules, reason, compiled)


def prepare(path: Path) -> tuple[dict[str, Any], dict[str, Any], str]:
    """The reference's names, the candidates' modules or why there is none, and why there is no graph."""
    import torch

    from agents.engineers.offline.coder import write_candidate
    from agents.engineers.offline.costs import Ceilings
    from agents.engineers.offline.opportunities import find_ways
    from agents.engineers.offline.regions import REPLAY
    from agents.engineers.offline.replay import UNSEEN
    from gpu_runner.child.capture import capture
    from gpu_runner.contracts import DeviceInfo, Graph

    source = path.read_text()
    space: dict[str, Any] = {"__name__": "reference"}
    exec(compile(source, str(path), "exec"), space)
    with torch.device("cuda"):  # a graph names the device of what the program makes
        graph, reason = capture(space["Model"](*space["get_init_inputs"]()), tuple(space["get_inputs"]()), "as-constructed")
    torch.cuda.empty_cache()
    major, minor = torch.cuda.get_device_capability()
    target = f"sm_{major}{minor}"
    device = DeviceInfo(kind="gpu", name="", target=target, bandwidth_bps=4.0e12, peak_flops=51e12)
    ways = find_ways(Graph.model_validate(graph), Ceilings.of(device)) if graph is not None else ()
    choices: dict[str, tuple[Any, list[Any]]] = {} if ways else {"replay": (None, [UNSEEN])}
    for prefix, way in zip(("", "last "), ways, strict=False):
        kernels = [r for r in way.regions if r.kind != REPLAY]
        replay = [r for r in way.regions if r.kind == REPLAY]
        if kernels:
            choices[f"{prefix}kernels"] = way.view, kernels
        if replay and not prefix:
            choices["replay"] = way.view, replay
        if kernels and replay:
            choices[f"{prefix}both"] = way.view, [*kernels, *replay]
    folder = Path(tempfile.mkdtemp(prefix="candidate-"))
    modules: dict[str, Any] = {}
    for name, (view, chosen) in choices.items():
        files = write_candidate(source, "Model", view, chosen, "as-constructed", target).files
        for file, text in files.items():
            place = folder / name / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        try:
            build(folder / name, target)
            modules[name] = load(folder / name)
        except Exception as error:
            modules[name] = error
    return space, modules, reason


def compile_reference(space: dict[str, Any], mode: str) -> Any:
    """The reference compiled in that mode and called, or None where that fails."""
    import torch

    try:
        model = torch.compile(space["Model"](*space["get_init_inputs"]()).cuda(), mode=mode)
        inputs = [x.cuda() if isinstance(x, torch.Tensor) else x for x in space["get_inputs"]()]
        with torch.no_grad():
            for _ in range(3):
                model(*inputs)
        return model
    except Exception:  # of any kind: a mode that does not work is no arm
        return None


def build(folder: Path, target: str) -> None:
    """Its kernels side by side into the library that it looks for. RuntimeError with the compiler's words."""
    flags = ["-O3", "-std=c++17", "--expt-relaxed-constexpr", f"-arch={target}{'a' if target >= 'sm_90' else ''}"]

    def run(*command: str) -> None:
        done = subprocess.run(["nvcc", *flags, "-Xcompiler", "-fPIC", *command], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[-400:])

    sources = sorted(str(path.relative_to(folder)) for path in folder.glob("kernels/*.cu"))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda source: run("-c", "-o", f"{source}.o", source), sources))
    if sources:
        run("-shared", "-o", "libkernels.so", *(f"{source}.o" for source in sources))


def load(folder: Path) -> Any:
    """The module of a candidate."""
    spec = importlib.util.spec_from_file_location(f"candidate_{folder.name.replace(' ', '_')}", folder / "model_new.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(
    path: Path, space: dict[str, Any], modules: dict[str, Any], reason: str, compiled: dict[str, Any]
) -> dict[str, Any]:
    import torch

    torch.manual_seed(1)
    model = space["Model"](*space["get_init_inputs"]()).cuda()
    state = copy.deepcopy(model.state_dict())
    draws = [[x.cuda() if isinstance(x, torch.Tensor) else x for x in space["get_inputs"]()] for _ in range(2)]
    row: dict[str, Any] = {"file": path.name, "note": reason, "candidates": {}}
    with torch.no_grad():
        row["eager_ms"] = milliseconds(lambda: model(*draws[0]))
        arms = {mode: arm for mode, arm in compiled.items() if arm is not None}
        row["compiled"] = {mode: row["eager_ms"] / milliseconds(lambda arm=arm: arm(*draws[0])) for mode, arm in arms.items()}
        compiled.clear()  # they hold much memory
        model.load_state_dict(state)
        expected = played(model, draws)
        truth = double_truth(model, state, draws)
        for name, module in modules.items():
            row["candidates"][name] = judge(module, space, state, draws, expected, truth, row["eager_ms"])
    return row


def judge(
    module: Any, space: dict[str, Any], state: Any, draws: Any, expected: Any, truth: Any, eager_ms: float
) -> dict[str, Any]:
    import torch

    if isinstance(module, Exception):
        return {"error": f"{type(module).__name__}: {module}"[-400:]}
    try:
        new = module.ModelNew(*space["get_init_inputs"]()).cuda()
        new.load_state_dict(state)
        mine = played(new, draws)
        pairs = list(zip(mine, expected, truth or [None] * len(mine), strict=True))
        large = sizes(expected, state)
        right = all(alike(a, b, t, size) for (a, b, t), size in zip(pairs, large, strict=True))
        same_layout = all(a.stride() == b.stride() for a, b, _ in pairs)
        exact = [
            (a, b, t) for (a, b, t), size in zip(pairs, large, strict=True)
            if t is not None and t.is_floating_point() and float(t.abs().mean()) > NOTHING * size
        ]  # fmt: skip
        results = [error(a, t) / max(error(b, t), 1e-9) for a, b, t in exact]
        ms = milliseconds(lambda: new(*draws[0]))
        answer = {"right": right and same_layout, "ratio": max(results, default=0.0), "ms": ms, "speedup": eager_ms / ms}
        return answer if same_layout else answer | {"note": "results are laid out differently"}
    except (RuntimeError, torch.cuda.OutOfMemoryError, AttributeError, TypeError) as trouble:
        return {"error": f"{type(trouble).__name__}: {trouble}"[-400:]}


def played(model: Any, draws: Any) -> list[Any]:
    """The results of every call, then what the model keeps."""
    results = [[x.clone() for x in leaves(model(*draws[i % 2]))] for i in range(CALLS)]
    return [*(x for one in results for x in one), *(x.clone() for x in model.state_dict().values())]


def double_truth(model: Any, state: Any, draws: Any) -> Any:
    """The same in float64, or None where the program cannot run in it."""
    import torch

    try:
        wide = copy.deepcopy(model)
        wide.load_state_dict(state)
        wide.double()
        return played(
            wide, [[x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in one] for one in draws]
        )
    except (RuntimeError, TypeError, torch.cuda.OutOfMemoryError):
        return None


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def sizes(expected: list[Any], state: Any) -> list[float]:
    """How large the numbers of each result are; of what a module keeps, those of all that it keeps.

    The mean of what a BatchNorm centred and a convolution without bias mixed is 0. What is kept of it is rounding errors alone,
    which are no measure of each other; the variance beside it is.
    """
    own = [float(x.abs().mean()) if x.is_floating_point() and x.numel() else 0.0 for x in expected]
    modules = [name.rpartition(".")[0] for name in state]
    kept = own[len(own) - len(modules) :]
    largest = {module: max(s for m, s in zip(modules, kept, strict=True) if m == module) for module in modules}
    return [*own[: len(own) - len(modules)], *(largest[module] for module in modules)]


def alike(mine: Any, eager: Any, truth: Any, size: float) -> bool:
    """Whether `mine` may stand for `eager`: as near to it as rounding leaves numbers of that `size`, or about as near to the
    truth as it is, which matters where a result is rounding errors.
    """
    if mine.shape != eager.shape or mine.dtype != eager.dtype:
        return False
    if not mine.is_floating_point():
        return bool((mine == eager).float().mean() > 0.999)
    near = bool((mine - eager).abs().max() <= 2e-2 * (size or 1.0) + 2e-2 * eager.abs().max())
    return near if truth is None else near or error(mine, truth) <= 2.0 * error(eager, truth)


def error(value: Any, truth: Any) -> float:
    scale = float(truth.square().mean().sqrt()) or 1.0
    return float((value.double() - truth).square().mean().sqrt()) / scale


def milliseconds(work: Callable[[], Any], budget_s: float = 0.4) -> float:
    """Median of wall clock from the call to the device's end, which is what a caller waits for; it includes the host's part."""
    import torch

    for _ in range(3):
        work()
    torch.cuda.synchronize()
    times: list[float] = []
    until = time.monotonic() + budget_s
    while len(times) < 50 and (time.monotonic() < until or len(times) < 5):
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main())
