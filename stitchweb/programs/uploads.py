"""What can be said of an uploaded text without running it: is it a module with inputs, and if not, which line and why.

Nothing here imports or executes the text; it is parsed. What only running can tell, the sandboxed analysis tells.
"""

from __future__ import annotations

import ast
import io
import keyword
import math
import re
import tokenize
from dataclasses import dataclass

from django.conf import settings

MAX_DEPTH = 80  # of nested expressions; deeper ones exhaust the parser of whoever reads the file next
MAX_TOKENS = 150_000  # ten thousand lines of a dense program; what has more costs the parser many seconds
MAX_ELEMENTS = 2**32  # of one input
DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64")
_FLOATS = frozenset({"float32", "float64", "float16", "bfloat16", "complex64"})


@dataclass(frozen=True)
class Problem:
    """Why a text is refused: a code for machines, a sentence and a way out for people, the line where there is one."""

    code: str
    sentence: str
    way_out: str = ""
    line: int | None = None
    path: str = ""


@dataclass(frozen=True)
class InputSpec:
    """One argument of `forward`, from the form. `high` bounds the integers (exclusive), for indices and classes."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    high: int = 2


@dataclass(frozen=True)
class Outline:
    """What a text defines: its classes that look like modules, and whether it brings its inputs."""

    modules: tuple[str, ...]
    has_inputs: bool
    has_init_inputs: bool


def decode(data: bytes, filename: str) -> tuple[str, list[Problem]]:
    """The text of uploaded bytes, or why they are none."""
    limit = settings.MAX_UPLOAD_KB * 1024
    if len(data) > limit:
        return "", [_too_large(filename)]
    if b"\0" in data:
        return "", [
            Problem(
                "binary", f"{_called(filename)} is not a text: it contains null bytes.", "Upload the .py file.", path=filename
            )
        ]
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n"), []
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        return "", [
            Problem(
                "not-utf8",
                f"{_called(filename)} is not UTF-8: byte {error.start} is {data[error.start]:#04x}.",
                "Save the file as UTF-8 in your editor.",
                line,
                filename,
            )
        ]


def check_source(text: str, filename: str = "", entry: str = "") -> list[Problem]:
    """What keeps `text` from being a program; empty when nothing does.

    `entry` names the module class; empty means `Model`, or the only module in the file.
    """
    name = _called(filename)

    def problem(code: str, sentence: str, way_out: str = "", line: int | None = None) -> list[Problem]:
        return [Problem(code, sentence, way_out, line, filename)]

    if len(text.encode("utf-8", "surrogatepass")) > settings.MAX_UPLOAD_KB * 1024:
        return [_too_large(filename)]
    if not text.strip().strip("\ufeff"):
        return problem("empty", f"{name} is empty.", "Paste a PyTorch module, or take an example from the gallery.")
    if "\0" in text:
        return problem("binary", f"{name} is not a text: it contains null bytes.", "Upload the .py file.")
    try:
        text.encode()
    except UnicodeEncodeError:
        return problem("not-utf8", f"{name} contains half a character (a lone surrogate).", "Save the file as UTF-8.")
    if text.lstrip().startswith(("{", "PK")) and '"cells"' in text:
        return problem("notebook", f"{name} is a notebook, not a Python file.", "Export the cell with the module as .py.")
    tree = _parse(text)
    if isinstance(tree, tuple):
        line, why = tree
        if line is None:
            return problem("not-python", f"{name} cannot be read as Python: {why}.", "Split it into shorter statements.")
        return problem("not-python", f"{name} is not Python: line {line}: {why}.", "Correct this line.", line)
    shape = outline(tree)
    if not shape.modules:
        return problem(
            "no-module",
            f"{name} has no class that derives from torch.nn.Module.",
            "Define the program as class Model(nn.Module) with a forward method.",
        )
    if entry and entry not in shape.modules:
        return problem(
            "no-entry", f"{name} has no module named {entry}; it has {', '.join(shape.modules)}.", "Choose one of them."
        )
    if not entry and "Model" not in shape.modules and len(shape.modules) > 1:
        return problem(
            "which-module",
            f"{name} has several modules and none is called Model: {', '.join(shape.modules)}.",
            "Choose which one to optimize.",
        )
    if not shape.has_inputs:
        return problem(
            "no-inputs",
            f"{name} does not define get_inputs(), so nothing says what the module is called with.",
            "Fill in the shapes and types of its inputs, or write get_inputs() yourself.",
        )
    return []


def outline(tree: ast.Module | str) -> Outline:
    """The modules and input functions of a parsed text (a text is parsed first; one that does not parse has none)."""
    if isinstance(tree, str):
        parsed = _parse(tree)
        if isinstance(parsed, tuple):
            return Outline((), False, False)
        tree = parsed
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    known: set[str] = set()
    for name, node in classes.items():  # in the order of the text, so bases come first
        bases = {_dotted(base) for base in node.bases}
        if bases & known or any(
            base.split(".")[-1].endswith("Module") or base.startswith(("nn.", "torch.nn.")) for base in bases
        ):
            known.add(name)
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    names |= {t.id for node in tree.body if isinstance(node, ast.Assign) for t in node.targets if isinstance(t, ast.Name)}
    return Outline(tuple(name for name in classes if name in known), "get_inputs" in names, "get_init_inputs" in names)


def _dotted(node: ast.expr) -> str:
    """`a.b.c` as text, at any depth; empty for what is no dotted name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id])) if isinstance(node, ast.Name) else ""


def with_inputs(text: str, entry: str, specs: list[InputSpec], init: str = "") -> str:
    """`text` with `get_inputs()` and `get_init_inputs()` appended, from a form.

    `init` holds the constructor's arguments as Python literals ("512, 4, bias=False" is refused: positional ones only).
    Raises ValueError with a sentence for a shape, type or literal that cannot be used.
    """
    if entry and (not entry.isidentifier() or keyword.iskeyword(entry)):
        raise ValueError(f"{entry!r} is not the name of a class.")
    if not specs:
        raise ValueError("Give at least one input: its shape and type.")
    has = outline(text)
    lines = ["", "", "# Added from the upload form."]
    if "torch" not in _imports(text):
        lines.append("import torch")
    if not has.has_inputs:
        lines += ["", "", "def get_inputs():", "    return [", *(f"        {_expression(spec)}," for spec in specs), "    ]"]
    if not has.has_init_inputs:
        lines += ["", "", "def get_init_inputs():", f"    return {_literals(init)!r}"]
    return text.rstrip() + "\n" + "\n".join(lines) + "\n"


def parse_shape(text: str) -> tuple[int, ...]:
    """ "16, 128" or "16x128" or "[16, 128]" as a shape; an empty text is a scalar. ValueError with a sentence."""
    inner = text.strip().strip("[]()").strip()
    if not inner:
        return ()
    parts = [part for part in re.split(r"[\s,x×]+", inner) if part]
    if not all(part.isdecimal() and len(part) <= 12 for part in parts):
        raise ValueError(f"The shape {text[:80]!r} is not a list of whole numbers. Write it like 16, 128.")
    shape = tuple(int(part) for part in parts)
    if len(shape) > 8 or math.prod(shape) > MAX_ELEMENTS:
        raise ValueError(f"The shape {text[:80]!r} is too large: at most 8 dimensions and {MAX_ELEMENTS} numbers in all.")
    return shape


def _expression(spec: InputSpec) -> str:
    if spec.dtype not in DTYPES:
        raise ValueError(f"The type {spec.dtype!r} is not known. Choose one of {', '.join(DTYPES)}.")
    shape = f"({', '.join(map(str, spec.shape))}{',' if len(spec.shape) == 1 else ''})"
    if spec.dtype in _FLOATS:
        return f"torch.randn({shape}, dtype=torch.{spec.dtype})"
    if spec.dtype == "bool":
        return f"torch.rand({shape}) < 0.5"
    if spec.high < 1:
        raise ValueError("The largest value of a whole-number input must be at least 1.")
    return f"torch.randint(0, {spec.high}, {shape}, dtype=torch.{spec.dtype})"


def _literals(text: str) -> list[object]:
    """Constructor arguments as people write them: `512, 4`, or the whole list `[512, 4]`."""
    try:
        value = ast.literal_eval(f"[{text.strip()}]")
        if len(value) == 1 and isinstance(value[0], list):
            value = value[0]
        ast.literal_eval(repr(value))  # what is written into the file must mean the same; an infinity would not
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        named = " Names are not taken: write the values alone, in the constructor's order." if "=" in text else ""
        raise ValueError(
            f"The constructor's arguments {text!r} are not plain values. Write them like 512, 4, True.{named}"
        ) from error
    return list(value)


def _imports(text: str) -> set[str]:
    tree = _parse(text)
    if isinstance(tree, tuple):
        return set()
    return {alias.asname or alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}


def imports(text: str) -> list[tuple[str, int]]:
    """The top-level packages that a text imports (relative ones as their dots) and the lines; none where it does not parse."""
    tree = _parse(text)
    if isinstance(tree, tuple):
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name.split(".")[0], node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(("." * node.level or (node.module or "").split(".")[0], node.lineno))
    return found


def _parse(text: str) -> ast.Module | tuple[int | None, str]:
    """The syntax tree, or the line (None: no single one) and the reason.

    Bracket depth and length are bounded first: the parser's own bounds are the C stack and patience.
    """
    depth = 0
    try:
        for count, token in enumerate(tokenize.generate_tokens(io.StringIO(text).readline)):
            if count > MAX_TOKENS:
                return None, f"it has more than {MAX_TOKENS} words and signs"
            if token.type == tokenize.OP and token.string in "([{":
                depth += 1
                if depth > MAX_DEPTH:
                    return token.start[0], f"brackets are nested more than {MAX_DEPTH} deep"
            elif token.type == tokenize.OP and token.string in ")]}":
                depth -= 1
    except tokenize.TokenError:
        pass  # ends inside a bracket or string; the parser below says it better
    except (IndentationError, SyntaxError) as error:
        return error.lineno or 1, error.msg
    try:
        return ast.parse(text)
    except SyntaxError as error:
        return error.lineno or 1, error.msg
    except (ValueError, MemoryError, RecursionError):
        return None, "an expression in it is nested too deep"


def _too_large(filename: str) -> Problem:
    return Problem(
        "too-large",
        f"{_called(filename)} is too large: at most {settings.MAX_UPLOAD_KB} KB are taken.",
        "Weights do not belong in the file: the module is built with random ones. Remove large constants.",
        path=filename,
    )


def _called(filename: str) -> str:
    return filename or "The text"
