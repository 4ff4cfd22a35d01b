"""Whose kernel it is, by its name and by the operation that launched it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpu_runner.profile.rows import OWN

_TORCH = re.compile(r"\bat::|\bc10::|\btorch::")
_LIBRARY = re.compile(
    r"xmma|cutlass|cublas|cudnn|\bcub::|thrust::|\bnccl|nvjet|\bgemv?N?SP?|gemmSN|gemmk1|splitKreduce|\bcask|implicit_convolve|"
    r"magma|flash_fwd|flash_bwd|fmha|pytorch_flash|rocblas|\bCijk_|MIOpen",
    re.IGNORECASE,
)
_COMPILED = re.compile(r"^triton_")


def origin(name: str, path: Sequence[str]) -> str:
    """own | torch | library | compiled | unknown. A kernel launched inside one of the candidate's functions is its own, unless
    it is known to be another's."""
    if _TORCH.search(name):
        return "torch"
    if _LIBRARY.search(name):
        return "library"
    if _COMPILED.match(name):
        return "compiled"
    return "own" if any(part.startswith(OWN) for part in path) else "unknown"
