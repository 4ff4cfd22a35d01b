"""What things cost on a CPU, in seconds: bytes over bandwidth, arithmetic over rate, and a price per call.

The ceilings come from the device report where the hands measured them. The rest are rates of eager PyTorch, relative to those
ceilings; predictions order the to-do list, the Verifier's measurements decide.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.engineers.offline.graph import View, short
from gpu_runner.contracts import DeviceInfo, GraphNode

CALL_S = 3e-6  # one eager operation on a CPU: dispatch, allocation, waking the threads
KERNEL_S = 4e-6  # one of our kernels: the ctypes call, torch.empty, waking the threads
TRANSCENDENTAL = 12.0  # float operations that an eager exp, tanh or erf is worth
HEAVY = frozenset(
    "exp log tanh sigmoid silu gelu erf softmax _softmax log_softmax _log_softmax logsumexp mish softplus elu pow".split()
)


@dataclass(frozen=True)
class Ceilings:
    """`bandwidth` in bytes/s of streaming reads and writes, `flops` in multiply-adds × 2 per second, all cores."""

    bandwidth: float = 15e9
    flops: float = 150e9

    @staticmethod
    def of(device: DeviceInfo | None) -> Ceilings:
        default = Ceilings()
        if device is None:
            return default
        return Ceilings(device.bandwidth_bps or default.bandwidth, device.peak_flops or default.flops)


def tensor_bytes(view: View, name: str) -> int:
    spec = view.spec(name)
    return spec.nbytes if spec is not None else sum(s.nbytes for s in view.nodes[name].out if s) if name in view.nodes else 0


def eager_pointwise_s(view: View, node: GraphNode, ceilings: Ceilings) -> float:
    """One eager elementwise, reduction or normalisation call: it reads its operands and writes its result."""
    moved = sum(tensor_bytes(view, n) for n in view.operands(node)) + tensor_bytes(view, node.name)
    points = max((s.numel for s in node.out if s), default=0)
    for name in view.operands(node):
        spec = view.spec(name)
        points = max(points, spec.numel if spec else 0)
    work = points * (TRANSCENDENTAL if short(node.target) in HEAVY else 2.0)
    return CALL_S + max(moved / ceilings.bandwidth, work / (ceilings.flops / 8))


def fused_s(view: View, reads: tuple[str, ...], writes: tuple[str, ...], points: int, heavy: int, ceilings: Ceilings) -> float:
    """One fused kernel: each operand once, each result once, `heavy` exponentials per point."""
    moved = sum(tensor_bytes(view, n) for n in (*reads, *writes))
    work = points * (2.0 + heavy * TRANSCENDENTAL)
    return KERNEL_S + max(moved / ceilings.bandwidth, work / (ceilings.flops / 5))


def eager_gemm_s(flops: float, ceilings: Ceilings) -> float:
    """Eager's matrix products reach about half of this ceiling on CPUs that its library was not written for."""
    return CALL_S + flops / (0.45 * ceilings.flops)


def our_gemm_s(flops: float, moved: int, ceilings: Ceilings) -> float:
    return KERNEL_S + flops / (0.7 * ceilings.flops) + moved / ceilings.bandwidth / 4
