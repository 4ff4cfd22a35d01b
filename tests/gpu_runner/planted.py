"""Programs for a GPU, each bound by one thing that is known, for the profilers' tests and their benchmark.

Sizes are for devices with some 100 multiprocessors, 50 MB of cache and 2 to 5 TB/s: what one is to be bound by leaves room.
"""

from __future__ import annotations

_PROGRAM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
{forward}
def get_inputs():
    return [{inputs}]
"""


def _program(forward: str, inputs: str) -> str:
    return _PROGRAM.format(forward="\n".join(f"        {line}" for line in forward.splitlines()), inputs=inputs)


# name of the class that it is bound by: the program
PLANTED: dict[str, str] = {
    # 60 kernels of about 2 µs, which the host takes longer to launch
    "launch-bound": _program("for _ in range(60):\n    x = x * 1.01\nreturn x", "torch.randn(1000)"),
    # the host reads a number each time round and launches the next kernels afterwards; they last for longer than a host that a
    # profiler slows takes to launch them, or it would be bound by its launches as well
    "sync-bound": _program(
        "for _ in range(10):\n    x = x * 1.01\n    x = x + 1e-9 * x.sum().item()\nreturn x", "torch.randn(1 << 24)"
    ),
    # 128 MB to the host and back, through pageable memory
    "transfer-bound": _program("return x.cpu().to(x.device) * 2.0", "torch.randn(1 << 25)"),
    # two passes over more than any cache holds
    "memory-bound": _program("return x * 2.0 + 1.0", "torch.randn(1 << 26)"),
    # 550 GFLOP in float32
    "compute-bound": _program("return x @ x", "torch.randn(6500, 6500)"),
    # one block walks down 32 columns: each step waits for the one before
    "latency-bound": _program("return torch.cumsum(x, 0)", "torch.randn(8192, 32)"),
}


def bound_by(classes: list[str]) -> str:
    """The class that verdicts name, in the words of PLANTED: that the GPU is busy says nothing about what with."""
    first = next((name for name in classes if name != "gpu-bound"), "gpu-bound")
    return "latency-bound" if first.startswith("latency") else first
