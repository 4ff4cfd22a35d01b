"""A page: a head of a few fields, prose, and one kernel in a fence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "pages"

# What a page may be for: any x86-64 processor with AVX2; one with AVX-512; GPUs of that compute capability and later ones; and,
# with an "a", of that one alone.
ARCHITECTURES = ("cpu", "avx512", "sm_80", "sm_90", "sm_90a")
# The classes that a profile's verdict knows, without those that only say that the GPU is busy or that nothing is known.
BOTTLENECKS = (
    "memory-bound", "compute-bound", "latency-bound", "balanced", "launch-bound", "host-bound", "dispatch-bound", "sync-bound",
    "transfer-bound", "dependency-bound",
)  # fmt: skip
# Families of operations; `retrieval.family_of` puts PyTorch's operators into them.
FAMILIES = (
    "pointwise", "reduction", "softmax", "layer_norm", "rms_norm", "group_norm", "batch_norm", "cross_entropy", "matmul",
    "convolution", "pooling", "attention", "recurrent", "gather", "scatter", "scan", "histogram", "sort", "layout", "copy",
    "dropout", "sync",
)  # fmt: skip
_FIELDS = ("title", "topics", "ops", "bottlenecks", "architectures")
_KERNEL = re.compile(r"^```(cuda|cpp)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ARCHITECTURE = re.compile(r"sm_(\d+)(a?)\w*")


@dataclass(frozen=True)
class Page:
    """`name` is what it is cited by. `text` is all that stands under the head, `kernel` the fenced source in it."""

    name: str
    title: str
    topics: tuple[str, ...]
    ops: tuple[str, ...]
    bottlenecks: tuple[str, ...]
    architectures: tuple[str, ...]
    text: str
    kernel: str

    @property
    def prose(self) -> str:
        """The text without the kernel."""
        return _KERNEL.sub("", self.text).strip() + "\n"

    def fits(self, target: str) -> bool:
        """Whether it holds for a target: `cpu`, or a CUDA architecture such as `sm_90`."""
        return any(_holds(architecture, target) for architecture in self.architectures)


def read(name: str, text: str) -> Page:
    """The page in a file's text. ValueError, with the page's name, for a head that is not one or a page without one kernel."""
    head, found, body = text.removeprefix("---\n").partition("\n---\n")
    if not text.startswith("---\n") or not found:
        raise ValueError(f"the page {name} does not begin with a head between two lines of ---")
    fields = dict(_field(name, line) for line in head.splitlines())
    if tuple(fields) != _FIELDS:
        raise ValueError(f"the head of the page {name} has the fields {', '.join(fields)}; it needs {', '.join(_FIELDS)}")
    kernels = _KERNEL.findall(body)
    if len(kernels) != 1:
        raise ValueError(f"the page {name} has {len(kernels)} fences of cuda or cpp; it needs one")
    lists = {field: tuple(item.strip() for item in fields[field].split(",") if item.strip()) for field in _FIELDS[1:]}
    for field, known in (("ops", FAMILIES), ("bottlenecks", BOTTLENECKS), ("architectures", ARCHITECTURES)):
        if unknown := [item for item in lists[field] if item not in known]:
            raise ValueError(f"the page {name} names {', '.join(unknown)} under {field}; known are {', '.join(known)}")
    if not lists["topics"] or not lists["architectures"]:
        raise ValueError(f"the page {name} needs topics and an architecture")
    return Page(name=name, title=fields["title"], text=body.strip() + "\n", kernel=kernels[0][1], **lists)


@lru_cache
def pages() -> tuple[Page, ...]:
    """All pages by name. ValueError for one that cannot be read."""
    return tuple(_all())


def _all() -> Iterator[Page]:
    for path in sorted(FOLDER.glob("*.md")):
        yield read(path.stem, path.read_text(encoding="utf-8"))


def _field(name: str, line: str) -> tuple[str, str]:
    key, found, value = line.partition(":")
    if not found:
        raise ValueError(f"the line {line!r} in the head of the page {name} is no field")
    return key.strip(), value.strip()


def _holds(architecture: str, target: str) -> bool:
    mine, theirs = _ARCHITECTURE.fullmatch(architecture), _ARCHITECTURE.fullmatch(target)
    if mine is None or theirs is None:
        return mine is None and theirs is None  # a page for processors that have AVX-512 says itself how to ask for it
    return mine[1] == theirs[1] if mine[2] else int(theirs[1]) >= int(mine[1])
