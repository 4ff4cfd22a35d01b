"""What one forward consists of: operations with FLOPs and bytes, counted below autograd by a dispatch mode."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from . import tensors

_VIEWS = {"view", "_unsafe_view", "reshape", "t", "transpose", "permute", "expand", "unsqueeze", "squeeze", "slice", "select",
          "detach", "alias", "as_strided", "split", "split_with_sizes", "unbind", "chunk", "lift_fresh"}  # fmt: skip


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

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[-1]
        if name in _VIEWS:
            return result
        entry = self.ops.setdefault(f"aten::{name}", {"count": 0, "flops": 0, "bytes": 0})
        entry["count"] += 1
        entry["bytes"] += _bytes(args) + _bytes(list((kwargs or {}).values())) + _bytes(result)
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            entry["flops"] += int(formula(*args, **(kwargs or {}), out_val=result))
        return result


def count(reference: Any, inputs: list[Any]) -> dict[str, Any]:
    """FLOPs (matrix products, convolutions, attention) and bytes of each kind of operation in one forward.

    `bytes` of the whole counts each input, parameter, buffer and result once: what any program must move.
    """
    with _Counter() as counter:
        output = reference.forward(inputs)
    model = reference.model
    unique = {id(t): t for t in [*model.parameters(), *model.buffers()]}
    total = sum(_bytes(t) for t in [*tensors.tensors_in(inputs), *unique.values(), *tensors.tensors_in(output)])
    return {"ops": counter.ops, "flops": sum(op["flops"] for op in counter.ops.values()), "bytes": total}
