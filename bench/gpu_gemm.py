"""The split products on a GPU, and attention made of them: right against float64 whatever the shape, layout and numbers, then
how fast, variant by variant.

    python bench/gpu_gemm.py [--seconds 80] [--out gemm.json] [--check-only]

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
from typing import Any, NamedTuple

import gpu_attention
import torch

HERE = Path(__file__).resolve().parent
HEADERS = HERE.parent / "agents" / "engineers" / "offline" / "emit" / "headers"
VARIANTS: dict[str, dict[str, int]] = {
    "as shipped": {},
    "run 32": {"HALF_RUN": 32},
    "run 16": {"HALF_RUN": 16},
}
KINDS = ("randn", "rand", "scaled rows", "wide rows", "zeros", "denormal", "largest", "infinite")
LARGEST_ERROR = 1e-6  # root mean square, of the largest result: float32 itself stays below, a lost term does not


class Case(NamedTuple):
    """outer × inner products of m × k and k × n. `form`: n is an operand as it is written, t is one transposed. `heads`: both
    operands are parts of tensors [outer, rows, inner, width], as in attention; `shared`: the right one is the same for all."""

    m: int
    n: int
    k: int
    form: str = "nt"
    outer: int = 1
    inner: int = 1
    heads: bool = False
    shared: bool = False


ODD = [
    Case(1, 1, 1), Case(128, 128, 64), Case(129, 130, 131), Case(200, 257, 65), Case(1000, 1301, 900), Case(333, 64, 4096),
    Case(512, 512, 8192), Case(70, 90, 300, "nn", 3, 1), Case(200, 65, 130, "nt", 2, 3), Case(257, 200, 64, "nt", 2, 3, True),
    Case(257, 64, 300, "nn", 3, 2, True), Case(100, 50, 70, "nn", 2, 4, False, True),
]  # fmt: skip
TIMED = [  # what is least known comes first, in case there is too little time
    Case(1024, 1024, 64, "nt", 8, 12, True), Case(1024, 64, 1024, "nn", 8, 12), Case(1024, 1024, 8192), Case(256, 4096, 4096),
    Case(1024, 1024, 640, "nt", 96, 1), Case(4096, 4096, 4096), Case(16384, 768, 768), Case(512, 512, 8192),
    Case(1024, 8192, 8192), Case(4096, 4096, 4096, "nn"), Case(1024, 1024, 1024), Case(512, 512, 512, "nn", 64, 1),
    Case(640, 640, 64, "nt", 16, 12, True), Case(24576, 1536, 2048), Case(4096, 3072, 1024), Case(1024, 1024, 64, "nt", 8, 12),
]  # fmt: skip


class Tensors(NamedTuple):
    """Views of [outer, inner, rows, depth] of both operands, and what the library is told of them."""

    left: torch.Tensor
    right: torch.Tensor
    numbers: Any

    @staticmethod
    def draw(case: Case, kind: str) -> Tensors:
        shape = (case.outer, case.inner)
        left = numbers(kind, case.m, case.k, shape, case.form[0] == "t", case.heads)
        other = (1, 1) if case.shared else shape
        right = numbers("rand" if kind == "rand" else "randn", case.n, case.k, other, case.form[1] == "n", case.heads)
        right = right.expand(case.outer, case.inner, case.n, case.k)
        strides = []
        for x, turned in ((left, case.form[0] == "t"), (right, case.form[1] == "n")):
            outer, inner, row, step = x.stride()
            strides += [step if turned else row, outer, inner]
        sizes = [case.outer, case.inner, case.m, case.n, case.k, *strides]
        return Tensors(left, right, (ctypes.c_long * len(sizes))(*sizes))

    def product(self, dtype: torch.dtype) -> torch.Tensor:
        return self.left.to(dtype) @ self.right.to(dtype).transpose(-2, -1)


def numbers(kind: str, rows: int, depth: int, batch: tuple[int, int], turned: bool, heads: bool) -> torch.Tensor:
    """[*batch, rows, depth] with numbers of a kind; what is not finite or not ordinary sits in a few places."""
    outer, inner = batch
    if heads:
        shape, order = ((outer, depth, inner, rows), (0, 2, 3, 1)) if turned else ((outer, rows, inner, depth), (0, 2, 1, 3))
    else:
        shape, order = ((outer, inner, depth, rows), (0, 1, 3, 2)) if turned else ((outer, inner, rows, depth), (0, 1, 2, 3))
    x = (torch.rand if kind == "rand" else torch.randn)(shape, device="cuda").permute(order)
    if kind == "scaled rows":
        x *= torch.exp2(torch.randint(-60, 60, (rows, 1), device="cuda").float())
    elif kind == "wide rows":
        x *= torch.exp2(torch.randint(-40, 40, (rows, depth), device="cuda").float())
    elif kind == "zeros":
        x[:, :, :: max(1, rows // 3)] = 0
    elif kind == "denormal":
        x *= 1e-39
    elif kind == "largest":
        x[0, 0, rows // 2, depth // 2] = torch.finfo(torch.float32).max
    elif kind == "infinite":
        x[0, 0, rows // 2, depth // 2], x[-1, -1, 0, depth - 1], x[0, 0, rows - 1, 0] = (
            float("inf"),
            float("-inf"),
            float("nan"),
        )
    return x


class Library:
    """One build. `run(name, …)` starts a function of it on the current stream."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.library.workspace.argtypes, self.library.workspace.restype = [ctypes.c_void_p], ctypes.c_long

    def space(self, tensors: Tensors) -> torch.Tensor:
        """A workspace full of NaN: nothing may be read of it that was not written."""
        return torch.full((self.library.workspace(tensors.numbers),), float("nan"), device="cuda")

    def has(self, name: str) -> bool:
        return hasattr(self.library, name)

    def run(self, name: str, tensors: Tensors, bias: torch.Tensor, out: torch.Tensor, space: torch.Tensor) -> None:
        function = getattr(self.library, name)
        function.argtypes = [ctypes.c_void_p] * 7
        pointers = [t.data_ptr() for t in (tensors.left, tensors.right, bias, out, space)]
        code = function(*pointers, tensors.numbers, torch.cuda.current_stream().cuda_stream)
        if code:
            raise SystemExit(f"{name} could not be started: CUDA error {code}")


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


def functions(case: Case, library: Library) -> list[str]:
    """What multiplies operands of a case in a build; no more parts of K than it has panels of 64."""
    ways = [(columns, parts) for columns in (128, 64) for parts in (1, 2, 4) if parts <= max(1, case.k // 64)]
    names = [f"tf32_{case.form}"]
    if torch.cuda.get_device_capability()[0] == 9:
        names = [f"half_{case.form}_{columns}_{parts}" for columns, parts in ways] + names
    return [name for name in names if library.has(name)]


def checks(library: Library) -> Iterator[dict[str, Any]]:
    """One row per form, way of cutting, shape and kind of numbers."""
    for case, kind in itertools.product(ODD, KINDS):
        whole = case.outer * case.inner == 1
        for form in ("nt", "nn", "tn", "tt") if whole and kind in ("randn", "infinite") else (case.form,):
            this = case._replace(form=form)
            tensors, bias = Tensors.draw(this, kind), torch.randn(case.n, device="cuda")
            truth, plain = tensors.product(torch.float64) + bias.double(), tensors.product(torch.float32) + bias
            for name in functions(this, library):
                out = torch.full(truth.shape, 12345.0, device="cuda")
                library.run(name, tensors, bias, out, library.space(tensors))
                torch.cuda.synchronize()
                yield {"function": name, "case": this._asdict(), "numbers": kind, **compare(out, plain, truth)}


def compare(out: torch.Tensor, plain: torch.Tensor, truth: torch.Tensor) -> dict[str, Any]:
    """`ratio` of errors where all numbers are finite; `same`: NaN and infinity where one of the two others has them."""
    same = all(
        bool(((test(out) == test(plain)) | (test(out) == test(truth.float()))).all()) for test in (torch.isnan, torch.isinf)
    )
    finite = out.isfinite() & plain.isfinite() & truth.isfinite()
    if not bool(finite.any()):
        return {"ratio": 0.0, "error": 0.0, "same": same}
    scale = truth[finite].abs().amax().clamp_min(1e-30)

    def error(x: torch.Tensor) -> float:
        return float(((x.double() - truth)[finite] / scale).square().mean().sqrt())

    ours, library = error(out), error(plain)
    floor = 2.0**-26  # of the largest result: below it, an error is a rounding of the result itself
    return {"ratio": ours / max(library, floor), "error": ours, "same": same}


def milliseconds(work: Callable[[int], None], budget_s: float) -> float:
    """Median over CUDA events. `work(i)` starts the i-th repetition."""
    for i in range(2):
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
    """One row per shape, as long as there is time."""
    for case in TIMED:
        if time.monotonic() > until:
            print("The time is over; what follows was not timed.")
            return
        yield timing(libraries, case)
        torch.cuda.empty_cache()


def timing(libraries: dict[str, Library], case: Case) -> dict[str, Any]:
    """Milliseconds of the library and of every variant, and error ratios."""
    few = case.outer * case.inner * case.k * (case.m + case.n) > 2e7
    draws = [Tensors.draw(case, "randn") for _ in range(2 if few else 4)]
    bias, out = torch.zeros(case.n, device="cuda"), torch.empty(case.outer, case.inner, case.m, case.n, device="cuda")
    row: dict[str, Any] = {"case": case._asdict(), "ms": {}, "ratios": {}}

    def by_library(i: int) -> None:
        x = draws[i % len(draws)]
        torch.matmul(x.left, x.right.transpose(-2, -1), out=out)

    for name, tf32 in (("cublas fp32", False), ("cublas tf32", True)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        row["ms"][name] = milliseconds(by_library, 0.2)
    torch.backends.cuda.matmul.allow_tf32 = False
    for variant, library in libraries.items():
        space = library.space(draws[0])
        names = functions(case, library)
        if variant == "as shipped" and len(names) > 1:
            names += ["pack_left", f"pack_right_{case.form}", "only_product_128", "only_product_64"]
        for name in names:

            def ours(i: int, name: str = name, library: Library = library, space: torch.Tensor = space) -> None:
                library.run(name, draws[i % len(draws)], bias, out, space)

            row["ms"][f"{name}, {variant}"] = milliseconds(ours, 0.12)
    for kind in ("randn", "rand"):
        row["ratios"] |= ratios(libraries, case, kind, bias, out)
    return row


def ratios(libraries: dict[str, Library], case: Case, kind: str, bias: torch.Tensor, out: torch.Tensor) -> dict[str, float]:
    tensors, answer = Tensors.draw(case, kind), {}
    truth, plain = tensors.product(torch.float64), tensors.product(torch.float32)
    for variant, library in libraries.items():
        for name in functions(case, library):
            library.run(name, tensors, bias, out, library.space(tensors))
            answer[f"{name}, {variant}, {kind}"] = round(compare(out, plain, truth)["ratio"], 3)
    return answer


def show(row: dict[str, Any]) -> None:
    case = Case(**row["case"])
    base, flops = row["ms"]["cublas fp32"], 2e-9 * case.outer * case.inner * case.m * case.n * case.k
    extra = f"{case.outer} × {case.inner} × " if case.outer * case.inner > 1 else ""
    print(f"\n{extra}{case.m} × {case.n} × {case.k} {case.form}{' of heads' if case.heads else ''}")
    for name, ms in row["ms"].items():
        seen = [row["ratios"][f"{name}, {kind}"] for kind in ("randn", "rand") if f"{name}, {kind}" in row["ratios"]]
        errors = f"   error ratios {seen[0]:.2f} {seen[1]:.2f}" if seen else ""
        print(f"  {name:<30}{ms:8.3f} ms {flops / ms:8.1f} TFLOP/s {base / ms:6.2f}×{errors}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=80.0, help="for everything; checks come first")
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
        began = time.monotonic()
        checked = list(checks(libraries["as shipped"]))
        hopper = torch.cuda.get_device_capability()[0] == 9
        checked += gpu_attention.checks(libraries["as shipped"].library, compare) if hopper else []
        bad = [row for row in checked if not row["same"] or not (row["error"] < LARGEST_ERROR or row["ratio"] < 1)]
        for row in bad[:40]:
            print("WRONG", json.dumps(row))
        ordinary = [row["ratio"] for row in checked if row["numbers"] in ("rand", "randn") and "half" in row["function"]]
        worst = f"worst error ratio of fp16 terms on rand and randn {max(ordinary, default=0.0):.2f}"
        print(f"{len(checked)} checks in {time.monotonic() - began:.1f} s, {len(bad)} wrong; {worst}", flush=True)
        timed, attention = [], []
        half = time.monotonic() + (until - time.monotonic()) / 3
        if hopper and not options.check_only:
            for row in gpu_attention.timings(libraries["as shipped"].library, half, compare, milliseconds):
                gpu_attention.show(row)
                attention.append(row)
        for row in [] if options.check_only else timings(libraries, until):
            show(row)
            timed.append(row)
    if options.out:
        device = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}
        options.out.write_text(json.dumps({**device, "checks": checked, "timings": timed, "attention": attention}, indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
