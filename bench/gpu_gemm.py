"""The split products on a GPU: right against float64 whatever the shape, layout and numbers, then how fast, variant by variant.

    python bench/gpu_gemm.py [--seconds 480] [--out gemm.json] [--check-only]

Builds bench/gpu_gemm.cu for this GPU once for each variant, on all cores. Then the checks: a row for each that fails, and the
worst error ratio (root mean square error against float64, by that of cuBLAS in float32). Then the times: median of CUDA events
over rotating inputs, each variant against cuBLAS in float32 (TF32 off) and the library's own TF32. Needs torch and nvcc alone.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
HEADERS = HERE.parent / "agents" / "engineers" / "offline" / "emit" / "headers"
FORMS = {"nt": (True, True), "nn": (True, False), "tn": (False, False), "tt": (False, True)}
VARIANTS: dict[str, dict[str, int]] = {
    "as shipped": {},
    "group 4": {"SPLIT_GROUP": 4},
    "group 16": {"SPLIT_GROUP": 16},
    "2 stages": {"HALF_STAGES": 2, "TF32_STAGES": 3},
    "run 256": {"HALF_RUN": 256, "TF32_RUN": 128},
    "run 64": {"HALF_RUN": 64, "TF32_RUN": 32},
}
ODD = [
    (1, 1, 1),
    (128, 128, 64),
    (129, 130, 131),
    (200, 257, 65),
    (1000, 1301, 900),
    (333, 64, 4096),
    (64, 2050, 127),
    (512, 512, 8192),
]
SHAPES = [
    (4096, 4096, 4096), (1024, 8192, 8192), (8192, 8192, 2048), (2048, 6144, 8192), (24576, 1536, 2048), (4096, 11008, 4096),
    (1024, 1024, 8192), (256, 4096, 4096), (4096, 3072, 1024), (16384, 768, 768), (3000, 3620, 6500),
]  # fmt: skip


class Library:
    """One build. `run(name, …)` starts a function of it on the current stream."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.library.workspace.argtypes, self.library.workspace.restype = [ctypes.c_long] * 3, ctypes.c_long

    def space(self, m: int, n: int, k: int) -> torch.Tensor:
        """A workspace full of NaN: nothing may be read of it that was not written."""
        return torch.full((self.library.workspace(m, n, k),), float("nan"), device="cuda")

    def run(self, name: str, tensors: list[torch.Tensor], m: int, n: int, k: int) -> None:
        function = getattr(self.library, name)
        function.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_long] * 3 + [ctypes.c_void_p]
        code = function(*(t.data_ptr() for t in tensors), m, n, k, torch.cuda.current_stream().cuda_stream)
        if code:
            raise SystemExit(f"{name} could not be started for {m} × {n} × {k}: CUDA error {code}")


def build(folder: Path) -> dict[str, Library]:
    major, minor = torch.cuda.get_device_capability()
    architecture = f"-arch=sm_{major}{minor}{'a' if major >= 9 else ''}"

    def one(item: tuple[int, tuple[str, dict[str, int]]]) -> tuple[str, Library]:
        number, (name, values) = item
        path = folder / f"variant{number}.so"
        defines = [f"-D{key}={value}" for key, value in values.items()] + (["-DALL_FORMS"] if not values else [])
        flags = ["-O3", "-std=c++17", architecture, *defines, f"-I{HEADERS}", "-shared", "-Xcompiler", "-fPIC", "-lineinfo"]
        subprocess.run(["nvcc", *flags, "-o", str(path), str(HERE / "gpu_gemm.cu")], check=True)
        return name, Library(path)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(pool.map(one, enumerate(VARIANTS.items())))


def numbers(kind: str, rows: int, depth: int) -> torch.Tensor:
    """An operand of rows × depth with numbers of a kind; what is not finite or not ordinary sits in a few places."""
    x = torch.rand(rows, depth, device="cuda") if kind == "rand" else torch.randn(rows, depth, device="cuda")
    if kind == "scaled rows":
        x *= torch.exp2(torch.randint(-60, 60, (rows, 1), device="cuda").float())
    elif kind == "wide rows":
        x *= torch.exp2(torch.randint(-40, 40, (rows, depth), device="cuda").float())
    elif kind == "zeros":
        x[:: max(1, rows // 3)] = 0
    elif kind == "denormal":
        x *= 1e-39
    elif kind == "largest":
        x[rows // 2, depth // 2] = torch.finfo(torch.float32).max
    elif kind == "infinite":
        x[rows // 2, depth // 2], x[0, depth - 1], x[rows - 1, 0] = float("inf"), float("-inf"), float("nan")
    return x


KINDS = ("randn", "rand", "scaled rows", "wide rows", "zeros", "denormal", "largest", "infinite")


def checks(library: Library) -> Iterator[dict[str, Any]]:
    """One row per form, terms, shape and kind of numbers."""
    for (m, n, k), kind in itertools.product(ODD, KINDS):
        a, b, bias = numbers(kind, m, k), numbers("randn" if kind != "rand" else "rand", n, k), torch.randn(n, device="cuda")
        truth = a.double() @ b.double().t() + bias.double()
        plain = torch.addmm(bias, a, b.t())
        for form, (a_along_k, b_along_k) in FORMS.items():
            x = a if a_along_k else a.t().contiguous()
            y = b if b_along_k else b.t().contiguous()
            for terms in ("half", "tf32"):
                if terms == "half" and torch.cuda.get_device_capability()[0] != 9:
                    continue
                out = torch.full((m, n), 12345.0, device="cuda")
                library.run(f"{terms}_{form}", [x, y, bias, out, library.space(m, n, k)], m, n, k)
                torch.cuda.synchronize()
                row = {"form": form, "terms": terms, "shape": [m, n, k], "numbers": kind, **compare(out, plain, truth)}
                yield row


def compare(out: torch.Tensor, plain: torch.Tensor, truth: torch.Tensor) -> dict[str, Any]:
    """`ratio` of errors where all numbers are finite; `same`: NaN and infinity where one of the two others has them."""
    same = all(
        bool(((test(out) == test(plain)) | (test(out) == test(truth.float()))).all()) for test in (torch.isnan, torch.isinf)
    )
    finite = out.isfinite() & plain.isfinite() & truth.isfinite()
    scale = (
        truth[finite].abs().amax().clamp_min(1e-30)
        if bool(finite.any())
        else torch.ones((), device="cuda", dtype=torch.float64)
    )

    def error(x: torch.Tensor) -> float:
        return float(((x.double() - truth)[finite] / scale).square().mean().sqrt()) if bool(finite.any()) else 0.0

    ours, library = error(out), error(plain)
    floor = 2.0**-26  # of the largest result: below it, an error is a rounding of the result itself
    return {"ratio": ours / max(library, floor), "error": ours, "same": same}


def milliseconds(work: Callable[[int], None], budget_s: float) -> float:
    """Median over CUDA events. `work(i)` starts the i-th repetition."""
    for i in range(3):
        work(i)
    torch.cuda.synchronize()
    times: list[float] = []
    until = time.monotonic() + budget_s
    while len(times) < 30 and (time.monotonic() < until or len(times) < 5):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work(len(times))
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def timings(libraries: dict[str, Library], until: float) -> Iterator[dict[str, Any]]:
    """One row per shape: milliseconds of the library and of every variant, and error ratios."""
    for m, n, k in SHAPES:
        if time.monotonic() > until:
            return
        sets = max(2, min(4, int(2e8 // (4 * (m * k + n * k)) + 1)))
        xs = [torch.randn(m, k, device="cuda") for _ in range(sets)]
        ys = [torch.randn(n, k, device="cuda") for _ in range(sets)]
        bias, out = torch.zeros(n, device="cuda"), torch.empty(m, n, device="cuda")
        row: dict[str, Any] = {"shape": [m, n, k], "ms": {}}
        for name, tf32 in (("cublas fp32", False), ("cublas tf32", True)):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            row["ms"][name] = milliseconds(lambda i: torch.mm(xs[i % sets], ys[i % sets].t(), out=out), 0.5)  # noqa: B023
        torch.backends.cuda.matmul.allow_tf32 = False
        for variant, library in libraries.items():
            space = library.space(m, n, k)
            names = ["half_nt", "tf32_nt"] + (["pack_left", "only_product"] if variant == "as shipped" else [])
            for name in names if torch.cuda.get_device_capability()[0] == 9 else ["tf32_nt"]:

                def work(i: int, name: str = name, library: Library = library, space: torch.Tensor = space) -> None:
                    library.run(name, [xs[i % sets], ys[i % sets], bias, out, space], m, n, k)  # noqa: B023

                row["ms"][f"{name}, {variant}"] = milliseconds(work, 0.4)
        row["ratios"] = ratios(libraries, xs[0], ys[0], bias, out)
        yield row


def ratios(
    libraries: dict[str, Library], x: torch.Tensor, y: torch.Tensor, bias: torch.Tensor, out: torch.Tensor
) -> dict[str, float]:
    (m, k), n = x.shape, y.shape[0]
    answer = {}
    for kind, (a, b) in {"randn": (x, y), "rand": (torch.rand_like(x), torch.rand_like(y))}.items():
        truth, plain = a.double() @ b.double().t(), a @ b.t()
        for variant in ("as shipped", "run 256", "run 64"):
            for terms in ("half", "tf32"):
                if terms == "half" and torch.cuda.get_device_capability()[0] != 9:
                    continue
                libraries[variant].run(f"{terms}_nt", [a, b, bias, out, libraries[variant].space(m, n, k)], m, n, k)
                answer[f"{terms}, {variant}, {kind}"] = round(compare(out, plain, truth)["ratio"], 3)
    return answer


def show(row: dict[str, Any]) -> None:
    m, n, k = row["shape"]
    base = row["ms"]["cublas fp32"]
    print(f"\n{m} × {n} × {k}: cuBLAS fp32 {base:.3f} ms, {2e-9 * m * n * k / base:.1f} TFLOP/s")
    for name, ms in row["ms"].items():
        print(f"  {name:<28}{ms:8.3f} ms {2e-9 * m * n * k / ms:8.1f} TFLOP/s {base / ms:6.2f}×")
    print("  error ratios: " + "; ".join(f"{name} {value}" for name, value in row["ratios"].items()), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=480.0, help="for everything")
    parser.add_argument("--out", type=Path, help="all rows as JSON")
    parser.add_argument("--check-only", action="store_true")
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        libraries = build(Path(folder))
        print(f"{len(libraries)} builds in {time.monotonic() - began:.1f} s for {torch.cuda.get_device_name()}", flush=True)
        checked = list(checks(libraries["as shipped"]))
        bad = [row for row in checked if not row["same"] or not row["ratio"] < 2.0]
        for row in bad[:40]:
            print("WRONG", json.dumps(row))
        ordinary = [row["ratio"] for row in checked if row["numbers"] in ("rand", "randn")]
        print(f"{len(checked)} checks, {len(bad)} wrong; worst error ratio on rand and randn {max(ordinary):.2f}", flush=True)
        timed = []
        for row in [] if options.check_only else timings(libraries, until):
            show(row)
            timed.append(row)
    if options.out:
        device = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}
        options.out.write_text(json.dumps({**device, "checks": checked, "timings": timed}, indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
