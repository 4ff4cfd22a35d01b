"""What the suite's programs should cost in eager on an H200, estimated on the meta device: no data, no GPU.

    python bench/estimate.py [file.py …]

One JSON line per program: family, size class, shapes of the results, kernel launches and estimated milliseconds. It sizes the
programs of `bench/suite` and says which are bound by launches; it is no measurement, and no claim is made from it.

Each operator takes the longest of its bytes over bandwidth, its arithmetic over the rate of its kind, and the time the host
needs to launch it; views take nothing. Recurrent layers and attention are counted whole, as their library runs them.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from agents.reading import header

SUITE = Path(__file__).resolve().parent / "suite"

# An H200. Bandwidth and fp32 GEMM as measured on one for this project; the rest are fractions of them, from experience.
BANDWIDTH = 4.0e12  # bytes/s
GEMM = 51e12  # fp32 FLOP/s of cuBLAS without TF32
CONVOLUTION = 80e12  # FLOP/s of cuDNN, which may use TF32 in PyTorch's default
NARROW_CONVOLUTION = 12e12  # the same where a group has few channels
DEPTHWISE = 3e12
ATTENTION = 25e12  # FLOP/s of fused attention in fp32
LAUNCH_S = 5e-6  # host time of one eager operator
RECURRENT_STEP_S = 12e-6  # one step of one layer and direction in cuDNN
# How often an operator walks over its tensors, where it is more than reading operands and writing results once.
PASSES = {"native_layer_norm": 1.5, "native_group_norm": 1.5, "native_batch_norm": 1.5, "_softmax": 1.3, "_log_softmax": 1.3,
          "max_pool2d_with_indices": 2.5, "cumsum": 1.2, "cumprod": 1.2}  # fmt: skip
RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}


class Cost(TorchDispatchMode):
    """Adds up seconds and launches of everything that runs inside."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.launches = 0

    def book(self, seconds: float, launches: int = 1) -> None:
        self.seconds += max(seconds, launches * LAUNCH_S)
        self.launches += launches

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view and func._schema.name.split("::")[1] not in ("detach", "_unsafe_view"):
            self.book(operator_s(func, args, kwargs or {}, result))
        return result


class Whole(TorchFunctionMode):
    """Recurrent layers and attention, before they fall into parts."""

    def __init__(self, cost: Cost) -> None:
        super().__init__()
        self.cost = cost

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name not in RECURRENT and name != "scaled_dot_product_attention":
            return func(*args, **(kwargs or {}))
        if name == "scaled_dot_product_attention":
            with _disable_current_modes():
                result = func(*args, **(kwargs or {}))
            q, k = args[0], args[1]
            causal = 0.5 if (kwargs or {}).get("is_causal") else 1.0
            self.cost.book(causal * 4.0 * q.numel() * k.shape[-2] / ATTENTION)
        else:
            layers, bidirectional, batch_first = args[4], args[7], args[8]
            time = 1 if batch_first else 0
            steps = args[0].shape[time]
            with _disable_current_modes():  # one step has the states' shapes already
                first, *states = func(args[0].narrow(time, 0, 1), *args[1:])
            sizes = [steps if dim == time else size for dim, size in enumerate(first.shape)]
            result = (first.new_empty(sizes), *states)
            chains = layers * (2 if bidirectional else 1)
            weights = sum(w.numel() for w in args[2] if w.dim() == 2)
            tokens = args[0].numel() // args[0].shape[-1]
            self.cost.book(max(steps * chains * RECURRENT_STEP_S, 2.0 * weights * tokens / GEMM), chains)
        return result


def operator_s(func: Any, args: Any, kwargs: Any, result: Any) -> float:
    """Seconds of one operator on the device."""
    name = func._schema.name.split("::")[1]
    tensors = [t for t in tree_leaves((args, kwargs, result)) if isinstance(t, torch.Tensor)]
    moved = sum(math.prod(t.shape) * t.element_size() for t in tensors) * PASSES.get(name, 1.0)
    if name == "embedding":
        moved = 2 * result.numel() * result.element_size()
    seconds = moved / BANDWIDTH
    count = flop_registry.get(func._overloadpacket)
    if count is None:
        return seconds
    flops = float(count(*args, **kwargs, out_val=result))
    return max(seconds, flops / (convolution_rate(args) if name == "convolution" else GEMM))


def convolution_rate(args: Any) -> float:
    """FLOP/s of a convolution: `args` as aten.convolution takes them."""
    weight = args[1]
    inner = weight.shape[0] if args[6] else weight.shape[1]
    if args[8] > 1 and inner == 1:
        return DEPTHWISE
    return NARROW_CONVOLUTION if inner < 16 else CONVOLUTION


def estimate(path: Path) -> dict[str, Any]:
    """The line of one program. Whatever the program raises, comes out."""
    text = path.read_text(encoding="utf-8")
    space: dict[str, Any] = {"__name__": path.stem}
    exec(compile(text, str(path), "exec"), space)
    with torch.device("meta"), torch.no_grad():
        model = space["Model"](*space["get_init_inputs"]())
        inputs = space["get_inputs"]()
        cost = Cost()
        with cost, Whole(cost):
            result = model(*inputs)
    leaves = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
    words = header(text)
    return {
        "file": path.relative_to(SUITE).as_posix() if path.is_relative_to(SUITE) else path.name,
        "family": words.get("family", ""),
        "size": words.get("size", ""),
        "shapes": [list(t.shape) for t in leaves],
        "input_mib": round(sum(t.numel() * t.element_size() for t in inputs) / 2**20, 1),
        "launches": cost.launches,
        "estimate_ms": round(1e3 * cost.seconds, 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="programs (default: all of bench/suite)")
    torch.manual_seed(0)
    for path in parser.parse_args().files or sorted(SUITE.rglob("*.py")):
        print(json.dumps(estimate(path.resolve())), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
