"""A candidate's CUDA turned into C++ that a CPU runs thread by thread, so that its kernels can be held to their reference."""

from __future__ import annotations

import re
from pathlib import Path

from gpu_runner.contracts import CandidateFiles

SHIM = Path(__file__).with_name("cuda_on_cpu.h")
LAUNCH = re.compile(r"(\w+)<<<(\d+), (\d+), 0, stream>>>\((.*?)\);", re.DOTALL)


def on_cpu(candidate: CandidateFiles) -> CandidateFiles:
    """The same candidate for CPU tensors. Its kernels may use nothing but indices, shuffles and shared memory."""
    files: dict[str, str] = {}
    for path, text in candidate.files.items():
        if path.endswith(".cu"):
            path = path.removesuffix(".cu") + ".cpp"
            text = '#include "cuda_on_cpu.h"\n' + LAUNCH.sub(r"fibers::launch(\2, \3, [=] { \1(\4); });", text)
        elif path == "model_new.py":
            text = text.replace(".is_cuda", ".is_cpu").replace("torch.cuda.current_stream().cuda_stream", "None")
        elif path == "candidate.toml":
            text = 'flags = ["-std=c++17"]\n'
        files[path] = text
    if any(path.endswith(".cpp") for path in files):
        files["kernels/cuda_on_cpu.h"] = SHIM.read_text()
    return CandidateFiles(files=files)
