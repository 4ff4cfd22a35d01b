"""A captured program as data: ATen operations with shapes, so that engineers need no torch.

Arguments are JSON. Besides plain numbers, strings, booleans, null and lists there are tagged objects:
`{"ref": "name"}` (the value of a node or input), `{"dtype": "float32"}`, `{"device": "cpu"}`,
`{"memory_format": "channels_last"}`, `{"layout": "strided"}` and `{"float": "inf" | "-inf" | "nan"}`.
"""

from __future__ import annotations

from typing import Any, Literal

from gpu_runner.contracts.base import Contract


class TensorSpec(Contract):
    """Shape in elements, strides in elements, dtype in torch's spelling without the prefix."""

    shape: tuple[int, ...]
    dtype: str
    stride: tuple[int, ...] = ()

    @property
    def numel(self) -> int:
        n = 1
        for size in self.shape:
            n *= size
        return n

    @property
    def nbytes(self) -> int:
        sizes = {"float64": 8, "int64": 8, "complex64": 8, "complex128": 16, "float32": 4, "int32": 4}
        sizes |= {"float16": 2, "bfloat16": 2, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}
        return self.numel * sizes.get(self.dtype, 4)


class GraphInput(Contract):
    """A leaf of the graph. `target` is the parameter's or buffer's dotted name, or the position of a user input."""

    name: str
    kind: Literal["input", "parameter", "buffer", "constant"]
    target: str
    spec: TensorSpec | None  # None for an input that is not a tensor
    value: Any = None  # the literal of a non-tensor input or of a small constant


class GraphNode(Contract):
    """One call. `target` is torch's name, for example `aten.layer_norm.default`; `module` the path in the module tree."""

    name: str
    target: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    out: tuple[TensorSpec | None, ...] = ()
    single: bool = True  # False: the call returns a tuple, picked apart by `getitem` nodes
    module: str = ""
    line: str = ""  # the line of the user's source that made the call, trimmed


class GraphOutput(Contract):
    """What leaves: a result for the caller, or a buffer or input that the program changes in place (`target` names it)."""

    kind: Literal["result", "buffer_mutation", "input_mutation"]
    ref: str | None  # None: the literal None or a constant
    target: str = ""
    value: Any = None


class Graph(Contract):
    """The whole program. `tree` is JSON: "*" for a leaf (in order of `outputs` of kind result), a list tagged
    `["tuple", ...]` or `["list", ...]`, or an object for a dict."""

    inputs: tuple[GraphInput, ...]
    nodes: tuple[GraphNode, ...]
    outputs: tuple[GraphOutput, ...]
    tree: Any = "*"
    torch_version: str = ""
