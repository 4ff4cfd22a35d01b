"""Reference groups: programs that differ by names, constants, comments or layout alone count as one, so that what is learnt
from one is not asked of the other."""

from __future__ import annotations

import ast
import hashlib
from functools import lru_cache


@lru_cache(maxsize=4096)
def group_of(text: str) -> str:
    """The digest of a program's shape. Names that it gives itself are numbered by where they first stand, and constants are
    all one; what it calls of its libraries stays. A text that is no Python is a group of its own."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return hashlib.sha256(text.encode()).hexdigest()
    shape = ast.dump(_Shape(_own_names(tree)).visit(tree))
    return hashlib.sha256(shape.encode()).hexdigest()


def _own_names(tree: ast.AST) -> frozenset[str]:
    """What the program itself names: functions, classes, arguments, variables, attributes that it sets, aliases of imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return frozenset(found)


class _Shape(ast.NodeTransformer):
    def __init__(self, own: frozenset[str]) -> None:
        self._own = own
        self._numbers: dict[str, str] = {}

    def _name(self, name: str) -> str:
        return self._numbers.setdefault(name, f"_{len(self._numbers)}") if name in self._own else name

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._name(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(self._name(node.arg))  # without its annotation

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        if node.arg:
            node.arg = self._name(node.arg)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        node.attr = self._name(node.attr)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(0)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)  # a docstring

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name, node.returns = self._name(node.name), None
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self._name(node.name)
        return self.generic_visit(node)
