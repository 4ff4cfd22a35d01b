"""The same for programs that differ in nothing but the names of their variables, comments and white space.

It errs on the side of calling programs different: what is not understood is compared letter by letter. Names that others see
(attributes, which a state dict has, and functions that are found by name) count. Nothing is run, and no text of a program can
make it fail.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import io
import json
import re
import tokenize
import tomllib
from collections.abc import Iterator, Mapping
from itertools import pairwise

_TYPES = frozenset(
    "auto bool char double float half int long short signed unsigned size_t ptrdiff_t int8_t int16_t int32_t int64_t uint8_t "
    "uint16_t uint32_t uint64_t float2 float4 int2 int4 double2 uint uint2 uint4 __half __half2 __nv_bfloat16 __nv_bfloat162 "
    "__m128 __m256 __m512 __m256i __m512i".split()
)
_AFTER_TYPE = frozenset({"*", "&", "const", "__restrict__", "__restrict", "restrict", *_TYPES})
_CPP_TOKEN = re.compile(  # no part of it can fail late, so that no text takes long
    r"""
    (?P<skip>//[^\n]*|/\*.*?(?:\*/|\Z)|[ \t\r\f\v]+|\\\n)
    |(?P<line>\n\s*)
    |(?P<text>R"(?P<mark>[^()\\\s"]{0,16})\(.*?(?:\)(?P=mark)"|\Z)
      |"(?:\\.|[^"\\\n])*(?:"|(?=\n)|\\?\Z)|'(?:\\.|[^'\\\n])*(?:'|(?=\n)|\\?\Z))
    |(?P<name>[A-Za-z_]\w*)
    |(?P<other>[0-9][\w.]*|->|.)
    """,
    re.VERBOSE | re.DOTALL,
)
LONGEST = 400_000  # characters; what is longer is compared letter by letter


def fingerprint(files: Mapping[str, str]) -> str:
    """A hash of the files (path to text) in their normal form."""
    forms = {path: _normal(path, text) for path, text in files.items()}
    whole = json.dumps(forms, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(whole.encode()).hexdigest()


def _normal(path: str, text: str) -> object:
    if len(text) > LONGEST:
        return text
    try:
        if path.endswith(".py"):
            return _python(text)
        if path.endswith(".toml"):
            return json.dumps(tomllib.loads(text), sort_keys=True, default=str)
        return _cpp(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError):
        return text


# ---- Python


def _python(text: str) -> list[str]:
    """The tokens of a module, its variables named by their order, without comments, docstrings and layout."""
    tree = ast.parse(text)
    own, docs = _own_names(tree), _docstrings(tree)
    names: dict[str, str] = {}
    told: list[str] = []
    before, skip = "", False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER):
            continue
        word = token.string
        if skip and token.type == tokenize.NEWLINE:
            skip = False
            continue
        if token.type in (tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE):
            word = tokenize.tok_name[token.type]
        elif token.type == tokenize.STRING:
            if token.start in docs:
                skip = True
                continue
            word = " ".join(_cpp(word)) if _is_source(word) else word
        elif token.type == tokenize.NAME and word in own and before != ".":
            word = names.setdefault(word, f"_{len(names)}")
        told.append(word)
        before = token.string
    return told


def _own_names(tree: ast.Module) -> set[str]:
    """Variables of the functions of a module, its parameters apart from those that are passed by name. What has a meaning
    outside (attributes, classes, functions, imports, globals) is none."""
    local: set[str] = set()
    outside: set[str] = set(dir(builtins))
    for top in tree.body:
        if isinstance(top, ast.Assign | ast.AnnAssign):
            outside |= {n.id for n in ast.walk(top) if isinstance(n, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            outside.add(node.name)
            spec = node.args
            local |= {a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
            local |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        elif isinstance(node, ast.ClassDef):
            outside.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            outside |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.keyword) and node.arg:
            outside.add(node.arg)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            outside |= set(node.names)
        elif isinstance(node, ast.JoinedStr):  # its names are not tokens in every version of Python
            outside |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return local - outside


def _docstrings(tree: ast.Module) -> set[tuple[int, int]]:
    """Where strings stand that are statements by themselves: line and column."""
    return {
        (node.value.lineno, node.value.col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }


def _is_source(literal: str) -> bool:
    """Whether a string of a Python program looks like C++."""
    return "\n" in literal and "{" in literal and ";" in literal


# ---- C++ and CUDA


def _cpp(text: str) -> list[str]:
    """The tokens of a file, its variables named by their order. The ends of lines count for the preprocessor alone."""
    words = list(_cpp_words(text))
    members = {word for mark, word in pairwise(words) if mark in (".", "->")}
    own = set(_declared(words)) - members
    names: dict[str, str] = {}
    return [names.setdefault(word, f"_{len(names)}") if word in own else word for word in words]


def _cpp_words(text: str) -> Iterator[str]:
    directive, fresh = False, True
    for match in _CPP_TOKEN.finditer(text):
        kind, word = match.lastgroup, match.group()
        if kind == "skip":
            continue
        if kind == "line":
            if directive:
                yield "\n"
            directive, fresh = False, True
            continue
        if fresh and word == "#":
            directive = True
            yield "\n"
        fresh = False
        yield word


def _declared(words: list[str]) -> Iterator[str]:
    """Names that follow a type and are no function's: variables and parameters."""
    for at in range(1, len(words)):
        name = words[at]
        if not (name[0].isalpha() or name[0] == "_") or name in _AFTER_TYPE:
            continue
        if at + 1 < len(words) and words[at + 1] in ("(", ":"):
            continue
        back = at - 1
        while back >= 0 and words[back] in _AFTER_TYPE and words[back] not in _TYPES:
            back -= 1
        if back >= 0 and words[back] in _TYPES:
            yield name
