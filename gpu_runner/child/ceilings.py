"""What this machine can do at most: bytes per second of a streaming pass, FLOP per second of a matrix product."""

import time

import torch

PASSES = 5


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


def measure(device: str, threads: int, beyond_cache: int) -> dict[str, float]:
    """`bandwidth_bps`: a triad over arrays of `beyond_cache` bytes, two read, one written; `peak_flops`: a float32 product.

    On the CPU with `threads` threads, as many as the programs under test have; the caller's count is put back.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        n = beyond_cache // 4
        a, b, out = (torch.ones(n, device=device) for _ in range(3))
        triad = _best(lambda: torch.add(a, b, alpha=2.0, out=out), device)
        side = 1024 if device == "cpu" else 8192
        x, y = (torch.rand(side, side, device=device) for _ in range(2))
        z = torch.empty(side, side, device=device)
        product = _best(lambda: torch.mm(x, y, out=z), device)
        return {"bandwidth_bps": 3 * 4 * n / triad, "peak_flops": 2 * side**3 / product}
    finally:
        torch.set_num_threads(before)
