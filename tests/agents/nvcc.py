"""What nvcc says of a template, for an architecture and without a device."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from agents.engineers import offline

HEADERS = Path(offline.__file__).parent / "emit" / "headers"


def spill_free_kernels(folder: Path, text: str, target: str) -> int:
    """How many kernels `text` was compiled into. Fails where it is not CUDA C++, where a register is spilled, and where wgmma
    instructions wait for each other."""
    (folder / "all.cu").write_text(text)
    flags = ["-std=c++17", "-O3", f"-arch={target}", f"-I{HEADERS}", "-Xptxas", "-v", "-cubin", "-o", "/dev/null"]
    done = subprocess.run(["nvcc", *flags, "all.cu"], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "serialized" not in done.stderr, "wgmma instructions wait for each other"
    spills = re.findall(r"(\d+) bytes spill stores", done.stderr)
    assert set(spills) == {"0"}, done.stderr
    return len(spills)
