"""Names out of traces: hostile text made safe to keep, without its machine's paths, and short enough to read.

`clean` is what is stored as a full name, `key` groups variants of one kernel over tools and template arguments, `short` is for
labels.
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_NAME = 1000
MAX_SHORT = 80
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# Absolute paths lose their folders: "/home/ada/net.py(12): forward" says whose machine it was.
_FOLDERS = re.compile(r"(?<![\w.:])(?:[A-Za-z]:)?(?:[\\/]{1,2}[\w.@+~ -]{1,255})*[\\/]{1,2}(?=[\w.@+~-])")
_ADDRESS = re.compile(r" (?:of [\w. ]{1,60}object )?at 0x[0-9a-fA-F]{1,16}")  # another one in each process
_MANGLED = re.compile(r"_ZN?K?(?:St)?((?:\d+[A-Za-z_$]\w*)+)")
_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\{anonymous\}::")
_OPERATOR = re.compile(r"operator ?\(\)")
_VERSION = re.compile(r"_v\d+(?:_ptsz|_ptds)?$")
_WHAT = re.compile(r"(\w+?)(?:_?cuda)?_?(?:kernel_?impl|kernel_cuda|functor)\b", re.IGNORECASE)
_XMMA = re.compile(r"^(?:sm\d+_)?xmma_(\w+?)_([a-z]+\d+)[a-z0-9]*_.*?tilesize(\d+x\d+x\d+)")
_CUTLASS = re.compile(r"cutlass_?\d*_\w+")
_CLOSING = {"<": ">", "(": ")", "[": "]", "{": "}"}


@lru_cache(maxsize=20_000)
def clean(name: str) -> str:
    """Printable, without folders, at most MAX_NAME characters; never empty."""
    text = _CONTROL.sub(" ", name[: 4 * MAX_NAME])
    if "/" in text or "\\" in text:
        text = _FOLDERS.sub("", text)
    text = demangled(_ADDRESS.sub("", text).strip())
    return (text if len(text) <= MAX_NAME else text[: MAX_NAME - 1] + "…") or "unnamed"


def demangled(name: str) -> str:
    """The qualified name inside an Itanium-mangled one, without its arguments; any other name as it is."""
    if not name.startswith("_Z") or not (match := _MANGLED.match(name)):
        return name
    parts, rest = [], match[1]
    while rest and rest[0].isdigit():
        digits = re.match(r"\d{1,4}", rest)
        assert digits is not None
        size = int(digits[0])
        part = rest[digits.end() : digits.end() + size]
        if len(part) < size or not size:
            break
        if part != "_GLOBAL__N_1":
            parts.append(part)
        rest = rest[digits.end() + size :]
    return "::".join(parts) or name


def _outside(name: str) -> str:
    """What stands outside of brackets, up to the parameter list."""
    kept: list[str] = []
    stack: list[str] = []
    for at, char in enumerate(name):
        if stack:
            if char == stack[-1]:
                stack.pop()
            elif char in _CLOSING and not (char == "<" and name[at - 1 : at] in {"<", "="}):
                stack.append(_CLOSING[char])
            elif char == ")" and ")" in stack:  # a stray "<" was no bracket
                while stack.pop() != ")":
                    pass
            continue
        if char == "(" and kept:
            break
        if char in _CLOSING:
            stack.append(_CLOSING[char])
        elif char not in ">)]}":
            kept.append(char)
    return "".join(kept)


@lru_cache(maxsize=20_000)
def key(name: str) -> str:
    """One name for the variants of a kernel or an API call: no return type, arguments, templates or version."""
    text = _OPERATOR.sub("operator", _ANONYMOUS.sub("", name))
    if text.startswith(("Memcpy", "Memset", "aten::", "ProfilerStep")):
        return text.split("(")[0].strip()[:200]
    text = _outside(text).strip()
    text = text.rsplit(" ", 1)[-1] if re.match(r"(?:void|int|float|bool|auto|__global__)\b", text) else text
    return _VERSION.sub("", text)[:200] or name[:200]


@lru_cache(maxsize=20_000)
def short(name: str) -> str:
    """A label: the last part of the key, and of a generic kernel what it computes."""
    if match := _XMMA.match(name):
        return f"{match[1]} {match[2]} {match[3]}"
    last = key(name)
    last = last.removeprefix("aten::") if last.startswith("aten::") else last.rsplit("::", 1)[-1]
    if "<" in name and (last.endswith("_kernel") or last in {"Kernel", "Kernel2", "kernel"}):
        inner = name[name.index("<") : 4 * MAX_NAME]
        if last.startswith("Kernel") and (match := _CUTLASS.search(inner)):
            last = match[0]
        elif match := _WHAT.search(inner):
            what = match[1].rsplit("::", 1)[-1]
            if what and what.lower() not in last.lower():
                last = f"{last} · {what}"
    return last if len(last) <= MAX_SHORT else last[: MAX_SHORT - 1] + "…"
