"""The reference's own source as the start of `model_new.py`: everything but its input generators."""

from __future__ import annotations

import ast

DROPPED = frozenset({"get_inputs", "get_init_inputs"})


def reference_body(source: str) -> str:
    """The module without docstring, `get_inputs`, `get_init_inputs` and script part; comments and layout are kept."""
    tree = ast.parse(source)
    lines = source.splitlines()
    keep = [True] * len(lines)
    for position, statement in enumerate(tree.body):
        first = statement.lineno
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) and statement.decorator_list:
            first = min(d.lineno for d in statement.decorator_list)
        docstring = position == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        generator = isinstance(statement, ast.FunctionDef) and statement.name in DROPPED
        script = isinstance(statement, ast.If) and "__name__" in ast.dump(statement.test)
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if docstring or generator or script or future:
            for k in range(first - 1, statement.end_lineno or first):
                keep[k] = False
    text = "\n".join(line for line, kept in zip(lines, keep, strict=True) if kept)
    while "\n\n\n\n" in text:
        text = text.replace("\n\n\n\n", "\n\n\n")
    return text.strip("\n")


def forward_parameters(source: str, entry: str) -> list[str]:
    """The names of the forward's parameters without self, for readable code; empty when they cannot be read."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ClassDef) and statement.name == entry:
            for item in statement.body:
                if isinstance(item, ast.FunctionDef) and item.name == "forward":
                    return [a.arg for a in (*item.args.posonlyargs, *item.args.args)][1:]
    return []


def title(source: str) -> str:
    """The first line of the module's docstring."""
    text = ast.get_docstring(ast.parse(source)) or ""
    return text.splitlines()[0].strip() if text else ""
