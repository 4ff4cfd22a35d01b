"""Attention by split products on a GPU, for bench/gpu_gemm.py: right against float64, and how fast beside PyTorch's own."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

SCALE = 0.125


class Case(NamedTuple):
    """`outer` × `inner` heads of m queries, n keys and `width` numbers.

    `heads`: they are parts of tensors [outer, rows, inner, width].
    """

    outer: int
    inner: int
    m: int
    n: int
    width: int
    causal: bool
    heads: bool = True


ODD = [
    Case(1, 1, 1, 1, 64, False),
    Case(2, 3, 200, 333, 64, False),
    Case(1, 2, 257, 257, 33, True),
    Case(3, 1, 129, 700, 20, True, False),
]
TIMED = [
    Case(8, 12, 1024, 1024, 64, False), Case(8, 12, 1024, 1024, 64, True), Case(16, 12, 640, 640, 64, True),
    Case(32, 12, 197, 197, 64, False), Case(2, 16, 4096, 4096, 64, False), Case(8, 8, 160, 3000, 64, False),
]  # fmt: skip


class Tensors(NamedTuple):
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    numbers: Any

    @staticmethod
    def draw(case: Case, spread: float = 1.0, strange: float = 1.0) -> Tensors:
        def one(rows: int) -> torch.Tensor:
            first, second = (rows, case.inner) if case.heads else (case.inner, rows)
            x = torch.randn(case.outer, first, second, case.width, device="cuda")
            return x.transpose(1, 2) if case.heads else x

        q, k, v = one(case.m), one(case.n), one(case.n)
        q *= spread
        k[0, 0, case.n // 2, case.width // 2] *= strange
        sides = [number for x in (q, k) for number in (x.stride(2), x.stride(0), x.stride(1))]
        sizes = [case.outer, case.inner, case.m, case.n, case.width, *sides]
        return Tensors(q, k, v, (ctypes.c_long * len(sizes))(*sizes))

    def written_out(self, causal: bool, dtype: torch.dtype) -> torch.Tensor:
        q, k, v = (x.to(dtype) for x in self[:3])
        scores = q @ k.transpose(-2, -1) * SCALE
        if causal:
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        return scores.softmax(-1) @ v


def start(library: Any, case: Case, tensors: Tensors, out: torch.Tensor, space: torch.Tensor) -> None:
    function = library.attention_causal if case.causal else library.attention_all
    function.argtypes = [ctypes.c_void_p] * 7
    pointers = [x.data_ptr() for x in (tensors.q, tensors.k, tensors.v, out, space)]
    code = function(*pointers, tensors.numbers, torch.cuda.current_stream().cuda_stream)
    if code:
        raise SystemExit(f"attention could not be started: CUDA error {code}")


def workspace(library: Any, tensors: Tensors) -> torch.Tensor:
    library.attention_workspace.argtypes, library.attention_workspace.restype = [ctypes.c_void_p], ctypes.c_long
    return torch.full((library.attention_workspace(tensors.numbers),), float("nan"), device="cuda")


def checks(library: Any, compare: Callable[..., dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One row per case and kind of numbers."""
    for case in ODD:
        for numbers, spread, strange in (
            ("randn", 1.0, 1.0),
            ("far apart", 8.0, 1.0),
            ("largest", 1.0, 3e38),
            ("infinite", 1.0, float("inf")),
        ):
            tensors = Tensors.draw(case, spread, strange)
            out = torch.full((case.outer, case.inner, case.m, case.width), 12345.0, device="cuda")
            start(library, case, tensors, out, workspace(library, tensors))
            torch.cuda.synchronize()
            truth, plain = (tensors.written_out(case.causal, dtype) for dtype in (torch.float64, torch.float32))
            yield {"function": "attention", "case": case._asdict(), "numbers": numbers, **compare(out, plain, truth)}


def once(way: Callable[[], Any], number: int) -> None:
    """The `number`-th repetition."""
    way()


def timings(
    library: Any, until: float, compare: Callable[..., dict[str, Any]], milliseconds: Callable[..., float]
) -> Iterator[dict[str, Any]]:
    """One row per case: milliseconds of PyTorch's own operation, of what is written out, and of ours."""
    for case in TIMED:
        if time.monotonic() > until:
            print("The time is over; further attention was not timed.")
            return
        tensors = Tensors.draw(case)
        out, space = torch.empty(case.outer, case.inner, case.m, case.width, device="cuda"), workspace(library, tensors)
        ways: dict[str, Callable[[], Any]] = {
            "PyTorch's own": partial(
                F.scaled_dot_product_attention, tensors.q, tensors.k, tensors.v, is_causal=case.causal, scale=SCALE
            ),
            "written out": partial(tensors.written_out, case.causal, torch.float32),
            "ours": partial(start, library, case, tensors, out, space),
        }
        ms = {name: milliseconds(partial(once, way), 0.3) for name, way in ways.items()}
        small = case.outer * case.inner * case.m * case.n < 2e8
        truth = tensors.written_out(case.causal, torch.float64) if small else None
        plain = tensors.written_out(case.causal, torch.float32) if small else None
        ratio = compare(out, plain, truth)["ratio"] if small else None
        yield {"case": case._asdict(), "ms": ms, "ratio": ratio}
        del truth, plain


def show(row: dict[str, Any]) -> None:
    case, base = Case(**row["case"]), row["ms"]["PyTorch's own"]
    flops = 4e-9 * case.outer * case.inner * case.m * case.n * case.width
    print(
        f"\nattention of {case.outer} × {case.inner} heads, {case.m} queries, {case.n} keys{', causal' if case.causal else ''}"
    )
    for name, ms in row["ms"].items():
        print(f"  {name:<30}{ms:8.3f} ms {flops / ms:8.1f} TFLOP/s {base / ms:6.2f}×")
    print(f"  error ratio {row['ratio']}", flush=True)
