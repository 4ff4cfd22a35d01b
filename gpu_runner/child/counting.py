"""What one forward consists of: operations with FLOPs and bytes, counted below autograd by a dispatch mode."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from . import tensors

_VIEWS = {"view", "_unsafe_view", "reshape", "t", "transpose", "permute", "expand", "unsqueeze", "squeeze", "slice", "select",
          "detach", "alias", "as_strided", "split", "split_with_sizes", "unbind", "chunk", "lift_fresh"}  # fmt: skip
# Operations that read every element of every tensor they are given, whatever its content.
_READ_ALL = {"add", "sub", "rsub", "mul", "div", "pow", "neg", "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "relu", "gelu",
             "silu", "mish", "elu", "leaky_relu", "hardtanh", "hardswish", "hardsigmoid", "softplus", "abs", "sin", "cos",
             "mm", "addmm", "bmm", "baddbmm", "mv", "dot", "convolution", "linear", "native_layer_norm", "native_group_norm",
             "native_batch_norm", "_softmax", "_log_softmax", "sum", "mean", "var", "std", "amax", "amin", "max", "min", "norm",
             "linalg_vector_norm", "cumsum", "logsumexp", "prod", "clamp"}  # fmt: skip


def _bytes(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, list | tuple):
        return sum(_bytes(item) for item in value)
    return 0


class _Counter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.ops: dict[str, dict[str, int]] = {}
        self.read: dict[int, int] = {}  # storage: bytes of it that one operation read

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[-1]
        if name in _VIEWS:
            return result
        entry = self.ops.setdefault(f"aten::{name}", {"count": 0, "flops": 0, "bytes": 0})
        if name.rstrip("_") in _READ_ALL:
            self._note_reads([*args, *(kwargs or {}).values()])
        entry["count"] += 1
        entry["bytes"] += _bytes(args) + _bytes(list((kwargs or {}).values())) + _bytes(result)
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            entry["flops"] += int(formula(*args, **(kwargs or {}), out_val=result))
        return result

    def _note_reads(self, values: list[Any]) -> None:
        for value in values:
            if isinstance(value, torch.Tensor) and 0 not in value.stride():
                key = value.untyped_storage().data_ptr()
                self.read[key] = max(self.read.get(key, 0), _bytes(value))


def count(reference: Any, inputs: list[Any]) -> dict[str, Any]:
    """FLOPs (matrix products, convolutions, attention) and bytes of each kind of operation in one forward.

    `bytes` of the whole counts each input, parameter, buffer and result once: what a program that wastes nothing moves.
    `must_read` counts inputs, parameters and buffers as far as one operation was seen to read all of them: a program that
    computes the same has to read them, too. It leaves out what is only indexed.
    """
    with _Counter() as counter:
        output = reference.forward(inputs)
    model = reference.model
    unique = {id(t): t for t in [*model.parameters(), *model.buffers()]}
    total = sum(_bytes(t) for t in [*tensors.tensors_in(inputs), *unique.values(), *tensors.tensors_in(output)])
    given = {t.untyped_storage().data_ptr() for t in [*tensors.tensors_in(inputs), *unique.values()] if t.numel()}
    must_read = sum(size for key, size in counter.read.items() if key in given)
    flops = sum(op["flops"] for op in counter.ops.values())
    return {"ops": counter.ops, "flops": flops, "bytes": total, "must_read": must_read}
