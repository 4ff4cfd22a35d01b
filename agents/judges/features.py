"""What the local judge looks at: signs in the code, what changed, what was measured, and words of the code hashed into columns.

Comments and strings are taken out first, so nothing that code says about itself can move a feature. Standard library only.
"""

from __future__ import annotations

import difflib
import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from agents.judges.case import Case
from agents.likeness import without_comments

COLUMNS = 192  # that words are hashed into
MOST = 60_000  # characters of a candidate that are looked at
_STRING = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'")
_WORD = re.compile(r"[A-Za-z_]\w*|[^\w\s]")
_CALL = re.compile(r"\b(?:torch|F|nn)\.(\w+)")


@dataclass(frozen=True)
class Sign:
    """Something that stands in code or does not. `words`: how a rationale calls it."""

    name: str
    pattern: re.Pattern[str]
    words: str


def _sign(name: str, pattern: str, words: str) -> Sign:
    return Sign(name, re.compile(pattern), words)


SIGNS = (
    _sign("kernel", r"__global__|#pragma omp", "a kernel of its own"),
    _sign("shared", r"__shared__|extern __shared__", "shared memory"),
    _sign("vector", r"float4|float2|half2|reinterpret_cast<const float4|_mm\d+_", "vector loads"),
    _sign("unroll", r"#pragma unroll", "unrolling"),
    _sign("sync", r"__syncthreads|__syncwarp", "synchronised threads"),
    _sign("shuffle", r"__shfl", "warp shuffles"),
    _sign("tensor", r"wmma|mma_sync|mma\.sync|wgmma", "tensor cores"),
    _sign("async", r"cp\.async|cuda::memcpy_async|__pipeline", "asynchronous copies"),
    _sign("restrict", r"__restrict__", "restricted pointers"),
    _sign("bounds", r"__launch_bounds__", "launch bounds"),
    _sign("checked", r"cudaGetLastError|C10_CUDA_KERNEL_LAUNCH_CHECK|TORCH_CHECK", "checked launches"),
    _sign("stream", r"<<<[^>]*,\s*stream\s*>>>|getCurrentCUDAStream\(\)>>>", "launches on the caller's stream"),
    _sign("default_stream", r"<<<[^>]*,\s*0\s*>>>|<<<[^,>]*,[^,>]*>>>", "launches on the default stream"),
    _sign("loop", r"gridDim\.x \* blockDim\.x|\+= \(long\)gridDim", "a grid-stride loop"),
    _sign("atomic", r"atomic(?:Add|Max|CAS)", "atomics"),
    _sign("keyed", r"data_ptr\(\)\s*,|in self\.\w+:|\.get\(\(?x\.data_ptr", "results kept by address"),
    _sign("kept", r"self\.\w+\[[^\]]+\]\s*=", "results kept between calls"),
    _sign("fallback", r"\bexcept\b|torch\.compile|jit\.script", "a fallback"),
    _sign("constant", r"torch\.(?:zeros|ones|full)\(", "constants in place of results"),
    _sign("side", r"cuda\.Stream\(|Thread\(|cudaStreamCreate", "work off the stream"),
    _sign("half", r"\.half\(\)|float16|bfloat16|__half", "lower precision"),
    _sign("launch", r"<<<", "launches"),
)
MEASURED = ("speedup", "speedup_compile", "coverage", "error_ratio", "rows_failed", "verified", "hack_found")
NAMES = (
    *(s.name for s in SIGNS), *(f"n_{s.name}" for s in SIGNS), "lines", "files", "calls", "left", "changed", "feedback", "cpu",
    "points", *MEASURED, *(f"no_{name}" for name in MEASURED),
)  # fmt: skip


def code_of(case: Case) -> dict[str, str]:
    """The candidate's files without comments and strings, cut to what is looked at."""
    return {path: _STRING.sub('""', without_comments(path, text[:MOST])) for path, text in sorted(case.files.items())}


def features(case: Case) -> list[float]:
    """Numbers in the order of `NAMES`, then the hashed words."""
    code = code_of(case)
    whole = "\n".join(code.values())
    counts = [len(sign.pattern.findall(whole)) for sign in SIGNS]
    wanted = _CALL.findall(without_comments("reference.py", case.reference))
    calls = _CALL.findall(code.get("model_new.py", ""))
    left = sum(name in calls for name in wanted) / len(wanted) if wanted else 0.0
    numbers = [
        *(float(n > 0) for n in counts),
        *(math.log1p(n) for n in counts),
        math.log1p(sum(bool(line.strip()) for line in whole.splitlines())),
        math.log1p(len(code)),
        math.log1p(len(calls)),
        left,
        _changed(case, code),
        float(case.skill == "feedback"),
        float(case.target == "cpu"),
        math.log1p(len(case.points)),
    ]
    measured = [case.measured.get(name) for name in MEASURED]
    numbers += [0.0 if value is None else _squashed(value) for value in measured]
    numbers += [float(value is None) for value in measured]
    return numbers + _hashed(whole)


def _squashed(value: float) -> float:
    return math.copysign(math.log1p(min(abs(value), 1e6)), value) if math.isfinite(value) else 0.0


def _changed(case: Case, code: Mapping[str, str]) -> float:
    """Share of lines that are other than the parent's; 1 without one."""
    if not case.parent:
        return 1.0
    before = "\n".join(text for _, text in sorted(case.parent.items())).splitlines()[:400]
    after = "\n".join(text for _, text in sorted(case.files.items())).splitlines()[:400]
    return 1.0 - difflib.SequenceMatcher(None, before, after, autojunk=True).quick_ratio()


def _hashed(text: str) -> list[float]:
    """Words and pairs of words, with signs, of length 1."""
    words = _WORD.findall(text)
    columns = [0.0] * COLUMNS
    for gram in [*words, *map(" ".join, pairwise(words))]:
        digest = zlib.crc32(gram.encode())
        columns[digest % COLUMNS] += 1.0 if digest & 0x80000000 else -1.0
    size = math.sqrt(sum(c * c for c in columns)) or 1.0
    return [c / size for c in columns]


def where(case: Case, name: str) -> tuple[str, int] | None:
    """File and line of the first place of a sign; None where there is none."""
    sign = next((s for s in SIGNS if s.name == name.removeprefix("n_")), None)
    if sign is None:
        return None
    for path, text in code_of(case).items():
        for at, line in enumerate(text.split("\n"), 1):
            if sign.pattern.search(line):
                return path, at
    return None
