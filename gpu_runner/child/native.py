"""A candidate without Python: our own caller of its C function, in the place where a `ModelNew` would stand.

The parent has checked `entry.json` and sends it as an order (see `gpu_runner/contracts/entry.py`): sizes are trees
`[operator, left, right]` over the names in the inputs' shapes.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import torch

from . import state
from .loading import Refused
from .tensors import DTYPES, dtype_name

_SCALARS = {
    "int64": (ctypes.c_int64, int),
    "int32": (ctypes.c_int32, int),
    "float64": (ctypes.c_double, float),
    "float32": (ctypes.c_float, float),
    "bool": (ctypes.c_bool, bool),
}
_VALUES = {
    "size": ctypes.c_int64,
    "int": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "threads": ctypes.c_int,
}
_MAX_BYTES = 1 << 48


def evaluate(tree: Any, sizes: dict[str, int]) -> int:
    """The number that an expression over sizes stands for. Raises Refused where it has none."""
    if not isinstance(tree, list):
        return sizes[tree] if isinstance(tree, str) else tree
    operator, left, right = tree[0], evaluate(tree[1], sizes), evaluate(tree[2], sizes)
    if operator == "//" and right == 0:
        raise Refused("entry_sizes", "A size of entry.json divides by zero.", "Correct the expression.")
    return {"+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right, "//": lambda: left // right}[
        operator
    ]()


@dataclass
class _Plan:
    """All that depends on the inputs' shapes alone. `values`: what is passed by value, by the argument's position."""

    outputs: list[tuple[list[int], torch.dtype]]
    scratch: dict[int, int]
    values: dict[int, Any]


class NativeModel(torch.nn.Module):
    """Callable like a module, with the reference's own weights and buffers by name as soon as they were given.

    Not registered as modules register them, since a state dict's names may hold dots; so the methods that list them are here.
    """

    def __init__(self, order: dict[str, Any], path: str, device: str) -> None:
        super().__init__()
        self._order, self._device = order, device
        self._state: dict[str, torch.Tensor] = {}
        self._buffer_names: set[str] = set()
        self._plans: dict[Any, _Plan] = {}
        places = {kind: [name for name, _, _ in order[f"{kind}s"]] for kind in ("input", "output")}
        # Inputs and outputs by their position.
        self._arguments = [(k, places[k].index(v) if k in places else v) for k, v in order["arguments"]]
        try:
            self._library = ctypes.CDLL(path)
            self._function = self._library[order["symbol"]]
        except (OSError, AttributeError) as error:
            raise Refused(
                "no_symbol",
                f"The library does not give the function {order['symbol']}: {error}.",
                'Define it with extern "C" in a source of kernels/, and link nothing that the runner lacks.',
            ) from error
        self._function.argtypes = [self._type(kind, value) for kind, value in self._arguments]
        self._function.restype = ctypes.c_int if order["status"] else None

    def _type(self, kind: str, value: Any) -> Any:
        if kind == "input":
            _, dtype, shape = self._order["inputs"][value]
            return ctypes.c_void_p if shape is not None else _SCALARS[dtype][0]
        return _VALUES.get(kind, ctypes.c_void_p)

    # ---- weights -----------------------------------------------------------------------------------------------------

    def adopt(self, given: dict[str, torch.Tensor], buffers: set[str]) -> None:
        """Take the reference's state: contiguous copies that stay where they are from then on."""
        wanted = [value for kind, value in self._order["arguments"] if kind == "weight"]
        if lost := [name for name in wanted if name not in given]:
            raise Refused(
                "weights_differ",
                f"entry.json asks for {', '.join(lost[:6])}, which the reference does not have; it has "
                f"{', '.join(sorted(given)[:20]) or 'no weights'}.",
                "Name parameters and buffers as the reference's state dict does.",
            )
        if not self._state:
            self._buffer_names = buffers & set(given)
            for name, value in given.items():
                self._state[name] = torch.empty(value.shape, dtype=value.dtype, device=self._device)
        for name, value in given.items():
            self._state[name].copy_(value)

    def state_dict(self, *_: Any, **__: Any) -> Any:
        return dict(self._state)

    def named_buffers(self, *_: Any, **__: Any) -> Any:
        return ((name, value) for name, value in self._state.items() if name in self._buffer_names)

    def named_parameters(self, *_: Any, **__: Any) -> Any:
        return ((name, value) for name, value in self._state.items() if name not in self._buffer_names)

    def owned(self) -> state.Owned:
        """See `state.owned`."""
        return state.Owned(dict(self.named_buffers()), [value for _, value in self.named_parameters()])

    # ---- the call ----------------------------------------------------------------------------------------------------

    def forward(self, *inputs: Any) -> Any:
        key = tuple(x.shape if isinstance(x, torch.Tensor) else None for x in inputs)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._planned(inputs)
        held = [self._taken(x, spec) for x, spec in zip(inputs, self._order["inputs"], strict=True)]
        outputs = [torch.empty(shape, dtype=dtype, device=self._device) for shape, dtype in plan.outputs]
        scratch = {at: torch.empty(size, dtype=torch.uint8, device=self._device) for at, size in plan.scratch.items()}
        answer = self._function(*self._passed(plan, held, outputs, scratch))
        if self._order["status"] and answer != 0:
            raise Refused("entry_failed", f"The function {self._order['symbol']} answered {answer} instead of 0.", "")
        return self._returned(outputs)

    def _passed(self, plan: _Plan, inputs: list[Any], outputs: list[Any], scratch: dict[int, Any]) -> list[Any]:
        found: list[Any] = []
        for at, (kind, value) in enumerate(self._arguments):
            if at in plan.values:
                found.append(plan.values[at])
            elif kind == "input":
                x = inputs[value]
                found.append(x.data_ptr() if isinstance(x, torch.Tensor) else x)
            elif kind == "weight":
                found.append(self._state[value].data_ptr())
            elif kind == "output":
                found.append(outputs[value].data_ptr())
            elif kind == "scratch":
                found.append(scratch[at].data_ptr())
            elif kind == "threads":
                found.append(torch.get_num_threads())
            else:
                found.append(None if self._device == "cpu" else torch.cuda.current_stream().cuda_stream)
        return found

    def _taken(self, given: Any, spec: list[Any]) -> Any:
        """What is passed for one input: contiguous, or a number of the type that was declared."""
        if spec[2] is not None:
            return given.contiguous()
        try:
            return _SCALARS[spec[1]][1](given)
        except (TypeError, ValueError):
            raise _differs(f"the input {spec[0]} is a {type(given).__name__}, entry.json declares {spec[1]}") from None

    def _planned(self, inputs: tuple[Any, ...]) -> _Plan:
        """Checks the inputs against what is declared, and computes what depends on their shapes. Raises Refused."""
        declared = self._order["inputs"]
        if len(inputs) != len(declared):
            raise _differs(f"the reference's forward takes {len(inputs)} inputs, entry.json declares {len(declared)}")
        sizes: dict[str, int] = {}
        for given, (name, dtype, shape) in zip(inputs, declared, strict=True):
            if (shape is not None) != isinstance(given, torch.Tensor):
                raise _differs(f"the input {name} is a {type(given).__name__}, entry.json declares the shape {shape}")
            if shape is not None:
                _bind(name, given, dtype, shape, sizes)
        outputs = []
        for name, dtype, trees in self._order["outputs"]:
            shape = [evaluate(tree, sizes) for tree in trees]
            if any(size < 0 for size in shape) or _product(shape) > _MAX_BYTES:
                raise Refused("entry_sizes", f"entry.json gives the output {name} the impossible shape {shape}.", "")
            outputs.append((shape, DTYPES[dtype]))
        scratch, values = {}, {}
        for at, (kind, value) in enumerate(self._arguments):
            if kind == "scratch":
                scratch[at] = evaluate(value, sizes)
                if not 0 <= scratch[at] < _MAX_BYTES:
                    raise Refused("entry_sizes", f"entry.json asks for {scratch[at]} bytes of scratch memory.", "")
            elif kind in ("size", "int", "float", "double"):
                values[at] = evaluate(value, sizes) if kind == "size" else value
        return _Plan(outputs, scratch, values)

    def _returned(self, outputs: list[torch.Tensor]) -> Any:
        form = self._order["returns"]
        if form == "dict":
            return {name: output for (name, _, _), output in zip(self._order["outputs"], outputs, strict=True)}
        return outputs[0] if form == "tensor" else tuple(outputs) if form == "tuple" else outputs


def _bind(name: str, given: torch.Tensor, dtype: str, shape: list[Any], sizes: dict[str, int]) -> None:
    if dtype_name(given.dtype) != dtype:
        raise _differs(f"the input {name} is of dtype {dtype_name(given.dtype)}, entry.json declares {dtype}")
    if len(given.shape) != len(shape):
        raise _differs(f"the input {name} has the shape {list(given.shape)}, entry.json declares {shape}")
    for size, declared in zip(given.shape, shape, strict=True):
        if (sizes.setdefault(declared, size) if isinstance(declared, str) else declared) != size:
            known = f" with {declared} = {sizes[declared]}" if isinstance(declared, str) else ""
            raise _differs(f"the input {name} has the shape {list(given.shape)}, entry.json declares {shape}{known}")


def _product(shape: list[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def _differs(what: str) -> Refused:
    return Refused("inputs_differ", f"The program does not take the reference's inputs: {what}.", "Correct entry.json.")
