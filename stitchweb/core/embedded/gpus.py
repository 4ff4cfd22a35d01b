"""Which CUDA devices this machine shows, asked of the driver's own tool."""

from __future__ import annotations

import subprocess


def visible_gpus(allowed: str | None) -> list[tuple[str, str]]:
    """(index, target such as `sm_90`) of each device; `allowed`: CUDA_VISIBLE_DEVICES, if set. Empty without a driver."""
    query = ["nvidia-smi", "--query-gpu=index,compute_cap", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[part.strip() for part in line.split(",")] for line in answer.splitlines() if line.count(",") == 1]
    wanted = None if allowed is None else {part.strip() for part in allowed.split(",")}
    return [(index, f"sm_{cap.replace('.', '')}") for index, cap in rows if wanted is None or index in wanted]
