"""What this machine can do at most: bytes per second of a streaming pass, FLOP per second of a matrix product."""

import time

import torch

PASSES = 5
SIDE = {"cpu": 1024, "cuda": 8192}  # of the square matrices, by kind of device
HALVES = ("float16", "bfloat16")  # which tensor cores multiply; a processor without such instructions would take seconds


def _best(call, device: str) -> float:
    """Seconds of the quickest of a few calls."""
    times = []
    for _ in range(PASSES + 1):
        start = time.perf_counter()
        call()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:])


def triad(device: str, size: int) -> float:
    """Bytes per second of a pass over three arrays of `size` bytes, two read, one written."""
    a, b, out = (torch.ones(size // 4, device=device) for _ in range(3))
    return 3 * 4 * (size // 4) / _best(lambda: torch.add(a, b, alpha=2.0, out=out), device)


def product(device: str, dtype: torch.dtype, side: int) -> float:
    """FLOP per second of the product of two square matrices, as torch multiplies them."""
    x, y = (torch.rand(side, side, device=device).to(dtype) for _ in range(2))
    z = torch.empty(side, side, device=device, dtype=dtype)
    return 2 * side**3 / _best(lambda: torch.mm(x, y, out=z), device)


def measure(device: str, threads: int, beyond_cache: int) -> dict[str, float]:
    """`bandwidth_bps`: a triad over arrays of `beyond_cache` bytes; `peak_flops`: a float32 product; on a GPU `float16_flops`
    and `bfloat16_flops`, the same product in these.

    On the CPU with `threads` threads, as many as the programs under test have; the caller's count is put back.
    """
    kind = torch.device(device).type
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        figures = {"bandwidth_bps": triad(device, beyond_cache), "peak_flops": product(device, torch.float32, SIDE[kind])}
        for name in HALVES if kind != "cpu" else ():
            figures[f"{name}_flops"] = product(device, getattr(torch, name), SIDE[kind])
        return figures
    finally:
        torch.set_num_threads(before)
