"""A digest of candidates that stays the same when names, comments and layout change, and code without its comments."""

from __future__ import annotations

import ast
import hashlib
import io
import re
import tokenize
from collections.abc import Mapping

# Comments, strings and identifiers of C++ and CUDA; a preprocessor line keeps its words.
_C_TOKENS = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*|\d[\w.]*|\S", re.DOTALL)
_C_WORDS = frozenset(
    "alignas asm auto bool break case catch char class const constexpr continue default delete do double else enum explicit"
    " extern false float for friend goto if inline int long mutable namespace new noexcept nullptr operator private protected"
    " public register return short signed sizeof static static_cast reinterpret_cast struct switch template this throw true"
    " try typedef typename union unsigned using virtual void volatile while __global__ __device__ __host__ __shared__"
    " __restrict__ __launch_bounds__ __syncthreads __syncwarp __shfl_xor_sync __shfl_down_sync threadIdx blockIdx blockDim"
    " gridDim float2 float4 half half2 include define pragma omp".split()
)


def candidate_norm_sha256(files: Mapping[str, str]) -> str:
    """Digest of a candidate's files: comments, whitespace and identifiers do not count, constants do. Paths do not either."""
    parts = sorted(_normal(path, text) for path, text in files.items())
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()


def _normal(path: str, text: str) -> str:
    if not path.endswith(".py"):
        return _normal_c(text)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return "\n".join(line.strip() for line in text.splitlines() if line.strip())
    return _dump(_Masked(_imported(tree)).visit(tree))


def _dump(tree: ast.AST) -> str:
    return ast.dump(tree, annotate_fields=False)


def _imported(tree: ast.AST) -> frozenset[str]:
    """Names that imports bind: they mean something outside of the file."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return frozenset(found)


class _Masked(ast.NodeTransformer):
    """Gives names the number of their first appearance, and drops docstrings."""

    def __init__(self, imported: frozenset[str]) -> None:
        self._keep = imported | {"self", "super", "range", "len", "int", "float", "forward", "__init__", "Model", "ModelNew"}
        self._names: dict[str, str] = {}

    def _name(self, name: str) -> str:
        return name if name in self._keep else self._names.setdefault(name, f"n{len(self._names)}")

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(id=self._name(node.id), ctx=node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(arg=self._name(node.arg), annotation=None)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        own = isinstance(node.value, ast.Name) and node.value.id == "self"
        attr = self._name(f"self.{node.attr}") if own else node.attr
        return ast.Attribute(value=self.visit(node.value), attr=attr, ctx=node.ctx)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name, node.returns = self._name(node.name), None
        return self._body(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self._name(node.name)
        return self._body(node)

    def visit_Module(self, node: ast.Module) -> ast.AST:
        return self._body(node)

    def _body(self, node: ast.FunctionDef | ast.ClassDef | ast.Module) -> ast.AST:
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            node.body = node.body[1:]
        return self.generic_visit(node)


def _normal_c(text: str) -> str:
    names: dict[str, str] = {}
    out = []
    for token in _C_TOKENS.findall(text):
        if token.startswith(("//", "/*")):
            continue
        if token[0].isalpha() or token[0] == "_":
            token = token if token in _C_WORDS else names.setdefault(token, f"n{len(names)}")
        out.append(token)
    return " ".join(out)


def without_comments(path: str, text: str) -> str:
    """The text without comments and docstrings, line numbers kept: what a judge reads that must not trust what code says."""
    if not path.endswith(".py"):
        return _C_TOKENS.sub(lambda m: re.sub(r"[^\n]", "", m[0]) if m[0].startswith(("//", "/*")) else m[0], text)
    lines = text.splitlines(keepends=True)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return text
    before = tokenize.NEWLINE
    for token in tokens:
        alone = token.type == tokenize.STRING and before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        if token.type == tokenize.COMMENT:
            row = token.start[0] - 1
            lines[row] = lines[row][: token.start[1]].rstrip() + ("\n" if lines[row].endswith("\n") else "")
        elif alone:
            _blank(lines, token)
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            before = token.type
    return "".join(lines)


def _blank(lines: list[str], token: tokenize.TokenInfo) -> None:
    """A statement that is a string alone becomes an empty one of as many lines."""
    first, last = token.start[0] - 1, token.end[0] - 1
    lines[first] = lines[first][: token.start[1]] + '""' + (lines[last][token.end[1] :] if first == last else "\n")
    for row in range(first + 1, last + 1):
        lines[row] = "\n"
