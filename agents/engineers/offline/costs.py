"""What things cost, in seconds: bytes over bandwidth, arithmetic over rate, and a price per call.

The ceilings come from the device report where the hands measured them. The rest are rates of eager PyTorch, relative to those
ceilings; predictions order the to-do list, the Verifier's measurements decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from agents.engineers.offline.graph import View, is_contiguous, short
from gpu_runner.contracts import DeviceInfo, GraphNode

CALL_S = 3e-6  # one eager operation on a CPU: dispatch, allocation, waking the threads
KERNEL_S = 4e-6  # one of our kernels: the ctypes call, torch.empty, waking the threads
LAUNCH_S = 5e-6  # one eager operation on a GPU, as long as the host is slower than the device
TRANSCENDENTAL = 12.0  # float operations that an eager exp, tanh or erf is worth
HEAVY = frozenset(
    "exp log tanh sigmoid silu gelu erf softmax _softmax log_softmax _log_softmax logsumexp mish softplus elu pow".split()
)

SLOW_ON_GPU = frozenset({"_native_batch_norm_legit_functional", "normalised", "group_norm", "instance_norm"})
SCANS = frozenset({"cumsum", "cumprod"})
ROW_RATE = 6.4e9  # bytes/s of one block of eager's norms on a GPU, which do a row each: few rows leave most of the device idle
TENSOR_SHARE, DEPTHWISE_SHARE = 2.5, 0.06  # of the float32 rate: the library's convolutions in TF32, and depthwise ones
GROUPED_LAST_SHARE = 0.1  # the library's convolutions in groups, between channels-last tensors
DEPTHWISE_BANDWIDTH, SCAN_BANDWIDTH = 0.35, 0.42  # what small depthwise filters and the library's scans reach of it

SEVERAL_PASSES = frozenset(
    "layer_norm group_norm instance_norm rms_norm softmax _softmax log_softmax _log_softmax logsumexp cross_entropy_loss var "
    "std _native_batch_norm_legit_functional normalised".split()
)


@dataclass(frozen=True)
class Ceilings:
    """`bandwidth` in bytes/s of streaming reads and writes, `flops` in multiply-adds × 2 per second, of the whole device.

    `call_s`: one eager operation; `kernel_s`: one of our kernels; `gemm_share`: of `flops`, what eager's products reach.
    """

    bandwidth: float = 15e9
    flops: float = 150e9
    target: str = "cpu"
    call_s: float = CALL_S
    kernel_s: float = KERNEL_S
    gemm_share: float = 0.45  # on CPUs that its library was not written for

    @staticmethod
    def of(device: DeviceInfo | None) -> Ceilings:
        default = Ceilings()
        if device is None:
            return default
        if device.kind == "gpu":
            rates = (device.bandwidth_bps or 1.5e12, device.peak_flops or 19e12)
            return Ceilings(*rates, device.target, LAUNCH_S, LAUNCH_S, 0.95)
        return Ceilings(device.bandwidth_bps or default.bandwidth, device.peak_flops or default.flops)


def tensor_bytes(view: View, name: str) -> int:
    spec = view.spec(name)
    return spec.nbytes if spec is not None else sum(s.nbytes for s in view.nodes[name].out if s) if name in view.nodes else 0


def eager_pointwise_s(view: View, node: GraphNode, ceilings: Ceilings) -> float:
    """One eager elementwise, reduction or normalisation call: it reads its operands and writes its result."""
    moved: float = sum(tensor_bytes(view, n) for n in view.operands(node)) + tensor_bytes(view, node.name)
    if short(node.target) in SEVERAL_PASSES:
        moved *= 1.5  # statistics first, results second; the second reading finds part of it in cache
    if ceilings.target != "cpu" and short(node.target) in SLOW_ON_GPU:
        moved *= 2  # its kernels reach half of the bandwidth there
    if is_apart(view, node):
        moved *= 0.5  # eager does both halves in one operation
    if short(node.target) == "relaid":
        moved *= 2  # its copies between layouts reach half of the bandwidth
    rate = ceilings.bandwidth * (SCAN_BANDWIDTH if ceilings.target != "cpu" and short(node.target) in SCANS else 1.0)
    if ceilings.target != "cpu" and (rows := _rows(view, node)):
        rate = min(rate, rows * ROW_RATE)
    return ceilings.call_s + max(moved / rate, _work(view, node) / (ceilings.flops / 8))


def is_apart(view: View, node: GraphNode) -> bool:
    """Whether it is a norm's statistics alone, or what is made with them; see `statistics`."""
    name = short(node.target)
    if name != "_native_batch_norm_legit_functional":
        return name == "normalised"
    return not any(view.nodes[u].target == "getitem" and view.nodes[u].args[1] == 0 for u in view.users[node.name])


def _rows(view: View, node: GraphNode) -> int:
    """Of an operation whose rows eager gives to a block each; 0 for others."""
    out = view.spec(node.name) or next((s for s in node.out if s is not None), None)
    name = short(node.target)
    if out is None or not out.shape:
        return 0
    if name in ("layer_norm", "rms_norm") and isinstance(node.args[1], list):
        return math.prod(out.shape[: len(out.shape) - len(node.args[1])])
    if name == "group_norm" and isinstance(node.args[1], int):
        return out.shape[0] * node.args[1]
    return 0


def _work(view: View, node: GraphNode) -> float:
    """Float operations of a pointwise operation or reduction: so many for each number that it reads or writes."""
    points = max((s.numel for s in node.out if s), default=0)
    for name in view.operands(node):
        spec = view.spec(name)
        points = max(points, spec.numel if spec else 0)
    return points * (TRANSCENDENTAL if short(node.target) in HEAVY else 2.0)


def fused_s(
    view: View, reads: tuple[str, ...], writes: tuple[str, ...], nodes: Iterable[GraphNode], ceilings: Ceilings
) -> float:
    """One fused kernel: each operand once, each result once, the arithmetic of all `nodes`."""
    moved = sum(tensor_bytes(view, n) for n in (*reads, *writes))
    work = sum(_work(view, node) for node in nodes)
    return ceilings.kernel_s + max(moved / ceilings.bandwidth, work / (ceilings.flops / 5))


def eager_gemm_s(flops: float, ceilings: Ceilings) -> float:
    """One of eager's matrix products."""
    return ceilings.call_s + flops / (ceilings.gemm_share * ceilings.flops)


def our_gemm_s(flops: float, moved: int, ceilings: Ceilings) -> float:
    return ceilings.kernel_s + flops / (0.7 * ceilings.flops) + moved / ceilings.bandwidth / 4


def eager_s(view: View, node: GraphNode, ceilings: Ceilings) -> float:
    """Any one node as eager runs it; a view costs its dispatch."""
    name = short(node.target)
    if name.startswith("conv") and ceilings.target != "cpu":
        return convolution_s(view, node, ceilings)
    if name in ("linear", "conv2d", "conv1d", "matmul", "bmm", "scaled_dot_product_attention", "lstm", "gru"):
        return eager_gemm_s(product_flops(view, node), ceilings)
    if node.out and node.out[0] is not None and (node.target == "getitem" or name in _VIEWS):
        return ceilings.call_s / 3
    return eager_pointwise_s(view, node, ceilings)


def convolution_s(view: View, node: GraphNode, ceilings: Ceilings) -> float:
    """One of the library's convolutions on a GPU, without its bias: on tensor cores, between channels-last tensors."""
    out = view.spec(node.name)
    operands = [s for n in view.operands(node)[:2] if (s := view.spec(n)) is not None]
    if out is None or len(operands) < 2:
        return ceilings.call_s
    x, weight = operands
    moved = x.nbytes + weight.nbytes + out.nbytes
    depthwise = weight.shape[1] == 1 < x.shape[1]
    grouped = not node.target.startswith("aten.conv_transpose") and 1 < weight.shape[1] < x.shape[1]
    share = DEPTHWISE_SHARE if depthwise else GROUPED_LAST_SHARE if grouped and not is_contiguous(x) else TENSOR_SHARE
    work = product_flops(view, node) / (ceilings.flops * share)
    turned = 0 if depthwise or not is_contiguous(x) else 2 * (x.nbytes + out.nbytes)  # where channels are not last
    rate = ceilings.bandwidth * (DEPTHWISE_BANDWIDTH if depthwise else 1.0)
    return ceilings.call_s + max(work, moved / rate) + turned / ceilings.bandwidth


_VIEWS = frozenset("view reshape permute transpose unsqueeze squeeze expand select slice split unbind t".split())


def product_flops(view: View, node: GraphNode) -> float:
    """Multiply-adds × 2 of a product, from the shapes: each number of the result sums over what the operands share."""
    specs = [s for n in view.operands(node) if (s := view.spec(n)) is not None]
    out = next((s for s in node.out if s is not None), None)
    if out is None or len(specs) < 2:
        return 0.0
    name = short(node.target)
    if name.startswith("conv"):
        if name.startswith("conv_transpose"):
            return 2.0 * specs[0].numel * specs[1].numel / specs[1].shape[0]
        weight = specs[1].shape
        inner = 1
        for size in weight[1:]:
            inner *= size
        return 2.0 * out.numel * inner
    if name in ("lstm", "gru"):
        weights = sum(s.numel for s in specs[1:] if len(s.shape) == 2)
        return 2.0 * weights * out.numel / max(out.shape[-1], 1)
    if name == "scaled_dot_product_attention":
        return 4.0 * out.numel * specs[1].shape[-2]
    return 2.0 * out.numel * specs[0].shape[-1]
