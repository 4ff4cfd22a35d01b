"""`entry.json`: how a candidate without Python is called. Its kernels export one C function; our runner loads and calls it.

    {"symbol": "scale", "inputs": [{"name": "x", "dtype": "float32", "shape": ["rows", 64]}],
     "outputs": [{"name": "y", "dtype": "float32", "shape": ["rows", 64]}],
     "arguments": [{"input": "x"}, {"weight": "norm.weight"}, {"output": "y"}, {"size": "rows * 64"}, "threads"]}

Names in an input's shape are sizes: they take their value from the call and must agree wherever they stand. Shapes of outputs,
`size` and `scratch` are computed from them with whole numbers, `+ - * //` and parentheses.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from gpu_runner.contracts.base import Contract

ENTRY_FILE = "entry.json"
MAX_RANK = 16
MAX_ARGUMENTS = 256
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//"}
_MAX_EXPRESSION = 200
SCALARS = ("int64", "int32", "float64", "float32", "bool")

Dtype = Literal[
    "float64", "float32", "float16", "bfloat16", "complex64", "complex128", "int64", "int32", "int16", "int8", "uint8", "bool",
    "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip
Name = Annotated[str, Field(pattern=rf"^{_NAME.pattern}$")]
Size = Annotated[int, Field(ge=0, lt=1 << 48)] | Annotated[str, Field(max_length=_MAX_EXPRESSION)]
Tree = int | str | list[Any]  # a number, the name of a size, or [operator, left, right]


def size_tree(size: int | str) -> Tree:
    """An expression over sizes as a tree that needs no parser. Raises ValueError with a sentence."""
    if isinstance(size, int):
        return size
    try:
        return _tree(ast.parse(size.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        if isinstance(error, ValueError) and not isinstance(error, SyntaxError):
            raise
        raise ValueError(f"the size {size!r} is no expression of whole numbers and names with + - * //") from None


def _tree(node: ast.expr) -> Tree:
    if isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value < 1 << 48:
        return node.value
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return [_OPERATORS[type(node.op)], _tree(node.left), _tree(node.right)]
    raise ValueError(f"the size {ast.unparse(node)!r} may hold whole numbers, names of sizes and + - * // alone")


def names_in(tree: Tree) -> set[str]:
    """The sizes that an expression needs."""
    if isinstance(tree, list):
        return names_in(tree[1]) | names_in(tree[2])
    return {tree} if isinstance(tree, str) else set()


class EntryInput(Contract):
    """One argument of the reference's forward, in its order. Without a shape it is a number, passed by value."""

    name: Name
    dtype: Dtype
    shape: Annotated[tuple[Size, ...], Field(max_length=MAX_RANK)] | None = None

    @model_validator(mode="after")
    def _plain(self) -> Self:
        if self.shape is None and self.dtype not in SCALARS:
            raise ValueError(f"the input {self.name} has no shape, so it is a number: its dtype is one of {', '.join(SCALARS)}")
        for size in self.shape or ():
            if isinstance(size, str) and not _NAME.fullmatch(size):
                raise ValueError(f"the shape of the input {self.name} holds {size!r}: use whole numbers and names of sizes")
        return self


class EntryOutput(Contract):
    """One result: made by the runner, contiguous and with no content, and written by the function."""

    name: Name
    dtype: Dtype
    shape: Annotated[tuple[Size, ...], Field(max_length=MAX_RANK)]


class EntryArgument(Contract):
    """One argument of the C function. Exactly one field is set.

    Pointers: `input` (contiguous), `weight` (a parameter or buffer by its name in the reference's state dict), `output`,
    `scratch` (so many bytes, without content). Values: `size` and `int` as int64_t, `float`, `double`; an `input` that is a
    number as its own type.
    """

    input: Name | None = None
    weight: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    output: Name | None = None
    scratch: Size | None = None
    size: Size | None = None
    int_: Annotated[int | None, Field(alias="int", ge=-(1 << 63), lt=1 << 63)] = None
    float_: Annotated[float | None, Field(alias="float", allow_inf_nan=False)] = None
    double: Annotated[float | None, Field(allow_inf_nan=False)] = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_fields_set) != 1 or next(iter(self.given().values())) is None:
            raise ValueError("an argument says exactly one of input, weight, output, scratch, size, int, float, double")
        return self

    def given(self) -> dict[str, Any]:
        """The one field, by its name in the file."""
        return self.model_dump(include=self.model_fields_set, by_alias=True)


class Entry(Contract):
    """The whole of `entry.json`. `returns`: how results are handed back; by default one as a tensor, several as a tuple.

    "stream" is the CUDA stream as a pointer (null on the CPU), "threads" an int. `status`: the function returns an int, and
    anything but 0 is a failure; without it, it returns nothing.
    """

    symbol: Name
    inputs: Annotated[tuple[EntryInput, ...], Field(max_length=64)]
    outputs: Annotated[tuple[EntryOutput, ...], Field(min_length=1, max_length=64)]
    arguments: Annotated[tuple[EntryArgument | Literal["stream", "threads"], ...], Field(max_length=MAX_ARGUMENTS)]
    returns: Literal["", "tensor", "tuple", "list", "dict"] = ""
    status: bool = False

    @field_validator("inputs", "outputs")
    @classmethod
    def _unique(cls, given: Any) -> Any:
        names = [item.name for item in given]
        if double := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"the name {double} is given twice")
        return given

    @model_validator(mode="after")
    def _whole(self) -> Self:
        sizes = {size for item in self.inputs for size in item.shape or () if isinstance(size, str)}
        tables = {"input": [i.name for i in self.inputs], "output": [o.name for o in self.outputs]}
        written = []
        for argument in self.arguments:
            if isinstance(argument, str):
                continue
            ((kind, value),) = argument.given().items()
            if kind in tables and value not in tables[kind]:
                known = _list(tables[kind])
                raise ValueError(f"an argument names the {kind} {value}, which is not declared; declared are {known}")
            if kind == "output":
                written.append(value)
            if kind in ("size", "scratch"):
                _known(value, sizes, f"the argument {kind}")
        if idle := next((name for name in tables["output"] if name not in written), None):
            raise ValueError(f"the output {idle} is handed to no argument, so nothing could write it")
        for output in self.outputs:
            for size in output.shape:
                _known(size, sizes, f"the output {output.name}")
        if self.returns == "tensor" and len(self.outputs) != 1:
            raise ValueError(f"returns is tensor, but there are {len(self.outputs)} outputs: use tuple, list or dict")
        return self

    def order(self) -> dict[str, Any]:
        """What the runner in the sandbox is told: plain JSON, sizes as trees."""
        arguments: list[list[Any]] = []
        for argument in self.arguments:
            if isinstance(argument, str):
                arguments.append([argument, None])
                continue
            ((kind, value),) = argument.given().items()
            arguments.append([kind, size_tree(value) if kind in ("size", "scratch") else value])
        return {
            "symbol": self.symbol,
            "inputs": [[i.name, i.dtype, None if i.shape is None else list(i.shape)] for i in self.inputs],
            "outputs": [[o.name, o.dtype, [size_tree(size) for size in o.shape]] for o in self.outputs],
            "arguments": arguments,
            "returns": self.returns or ("tensor" if len(self.outputs) == 1 else "tuple"),
            "status": self.status,
        }


def _known(size: int | str, sizes: set[str], where: str) -> None:
    unknown = names_in(size_tree(size)) - sizes
    if unknown:
        known = _list(sorted(sizes))
        raise ValueError(f"{where} uses the size {min(unknown)}, which no input's shape names; named are {known}")


def _list(names: list[str]) -> str:
    return ", ".join(names) or "none"


def parse_entry(text: str) -> Entry:
    """The file's content. Raises ValueError with a sentence that says where and what."""
    try:
        return Entry.model_validate(json.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if str(part).isdigit() or _NAME.fullmatch(str(part)))
        said = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{ENTRY_FILE}{f', {where}' if where else ''}: {said}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{ENTRY_FILE} is not valid JSON: {error}") from None
