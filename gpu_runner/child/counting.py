"""What one forward consists of: operations with FLOPs and bytes, counted below autograd by a dispatch mode."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from . import tensors

_VIEWS = {"view", "_unsafe_view", "reshape", "t", "transpose", "permute", "expand", "unsqueeze", "squeeze", "slice", "select",
          "detach", "alias", "as_strided", "split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes", "unbind",
          "chunk", "narrow", "lift_fresh"}  # fmt: skip
# Operations that read every element of every tensor they are given, whatever its content.
_READ_ALL = {"add", "sub", "rsub", "mul", "div", "pow", "neg", "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "relu", "gelu",
             "silu", "mish", "elu", "leaky_relu", "hardtanh", "hardswish", "hardsigmoid", "softplus", "abs", "sin", "cos",
             "mm", "addmm", "bmm", "baddbmm", "mv", "dot", "convolution", "linear", "native_layer_norm", "native_group_norm",
             "native_batch_norm", "_softmax", "_log_softmax", "sum", "mean", "var", "std", "amax", "amin", "max", "min", "norm",
             "linalg_vector_norm", "cumsum", "logsumexp", "prod", "clamp"}  # fmt: skip


# Operations that move values and compute none.
_NO_ARITHMETIC = {"copy", "clone", "_to_copy", "empty", "empty_like", "zeros", "ones", "full", "fill", "zero", "arange", "cat",
                  "stack", "index_select", "index", "gather", "embedding", "masked_fill", "where", "constant_pad_nd", "flip",
                  "roll", "scatter", "index_put", "repeat", "contiguous", "ones_like", "zeros_like", "new_zeros", "new_empty",
                  "tril", "triu", "scalar_tensor", "max_pool2d_with_indices", "upsample_nearest2d"}  # fmt: skip


_RECURRENT = {"mkldnn_rnn_layer", "_cudnn_rnn"}  # (steps and batch of the input) × (weights), and no formula of torch's own


def _recurrent(args: tuple[Any, ...]) -> int:
    """Multiplications and additions of the gates' products. `args`: the input, then the weights as a list or one by one."""
    given = args[1] if isinstance(args[1], list | tuple) else args[1:3]
    weights = sum(t.numel() for t in given if t.dim() == 2)
    return 2 * args[0].shape[0] * args[0].shape[1] * weights


def _elements(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel()
    return max((_elements(item) for item in value), default=0) if isinstance(value, list | tuple) else 0


def _bytes(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, list | tuple):
        return sum(_bytes(item) for item in value)
    return 0


_GATHERS = {"index_select", "index", "gather", "embedding", "take"}  # they read of a table what they return


def _moved(name: str, given: list[Any], result: Any) -> int:
    if name in _GATHERS:
        return 2 * _bytes(result) + sum(_bytes(v) for v in given if isinstance(v, torch.Tensor) and not v.is_floating_point())
    return _bytes(given) + _bytes(result)


class _Counter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.ops: dict[str, dict[str, int]] = {}
        self.dtypes: dict[str, dict[str, int]] = {}  # of each operation: arithmetic by type
        self.read: dict[int, int] = {}  # storage: bytes of it that one operation read

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[-1]
        if name in _VIEWS:
            return result
        entry = self.ops.setdefault(f"aten::{name}", {"count": 0, "flops": 0, "bytes": 0, "arithmetic": 0})
        before = entry["arithmetic"]
        if name.rstrip("_") in _READ_ALL:
            self._note_reads([*args, *(kwargs or {}).values()])
        entry["count"] += 1
        entry["bytes"] += _moved(name, [*args, *(kwargs or {}).values()], result)
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            flops = int(formula(*args, **(kwargs or {}), out_val=result))
            entry["flops"] += flops
            entry["arithmetic"] += flops
        elif name in _RECURRENT:
            entry["arithmetic"] += _recurrent(args)
        elif name.rstrip("_") not in _NO_ARITHMETIC:
            entry["arithmetic"] += max([_elements(result), *(_elements(value) for value in args)])
        self._note_dtype(f"aten::{name}", args, entry["arithmetic"] - before)
        return result

    def _note_dtype(self, op: str, args: tuple[Any, ...], arithmetic: int) -> None:
        """Arithmetic is done in the type of the first operand of numbers that are not whole."""
        dtype = next((str(v.dtype) for v in args if isinstance(v, torch.Tensor) and v.is_floating_point()), "")
        if dtype:
            done = self.dtypes.setdefault(op, {})
            done[dtype.removeprefix("torch.")] = done.get(dtype.removeprefix("torch."), 0) + arithmetic

    def _note_reads(self, values: list[Any]) -> None:
        for value in values:
            if isinstance(value, torch.Tensor) and 0 not in value.stride():
                key = value.untyped_storage().data_ptr()
                self.read[key] = max(self.read.get(key, 0), _bytes(value))


def count(reference: Any, inputs: list[Any]) -> dict[str, Any]:
    """FLOPs (matrix products, convolutions, attention) and bytes of each kind of operation in one forward.

    `arithmetic` of a kind is an estimate beside `flops`: recurrent layers' products too, and of what has no formula one
    operation for each element of its largest operand or result. `dtypes`: the type that a kind does most of it in.

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
    dtypes = {op: max(done, key=lambda dtype: done[dtype]) for op, done in counter.dtypes.items()}
    return {"ops": counter.ops, "dtypes": dtypes, "flops": flops, "bytes": total, "must_read": must_read}
