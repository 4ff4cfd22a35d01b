"""A candidate's CUDA turned into C++ that a CPU runs thread by thread, so that its kernels can be held to their reference."""

from __future__ import annotations

import re
from pathlib import Path

from gpu_runner.contracts import CandidateFiles

HERE = Path(__file__).parent
SHIMS = ("cuda_on_cpu.h", "tensor_cores_on_cpu.h")
SPLIT = ("split.cuh", "gemm_tf32.cuh", "pack_half.cuh", "gemm_half.cuh", "wgmma.cuh", "attention_half.cuh")
LAUNCH = re.compile(r"([\w:]+(?:<[\w:]+(?:, [\w:]+)*>)?)<<<(\d+), (\d+), 0, stream>>>\((.*?)\);", re.DOTALL)
# In the templates of split products, blocks and threads are expressions.
TEMPLATE_LAUNCH = re.compile(r"(\w+(?:<\w+(?:, \w+)*>)?)<<<unsigned\((.*?)\), (\w+), [\w()]+, stream>>>\((.*?)\);", re.DOTALL)


def on_cpu(candidate: CandidateFiles) -> CandidateFiles:
    """The same candidate for CPU tensors. Its kernels may use indices, shuffles, shared memory and templates of products."""
    files: dict[str, str] = {}
    for path, text in candidate.files.items():
        name = Path(path).name
        if path.endswith(".cu"):
            path = path.removesuffix(".cu") + ".cpp"
            shim = SHIMS["gemm_" in text or "attention_" in text]
            text = f'#include "{shim}"\n' + LAUNCH.sub(r"fibers::launch(\2, \3, [=] { \1(\4); });", text)
        elif name in SPLIT:
            text = template_on_cpu(name, text)
        elif path == "model_new.py":
            text = text.replace(".is_cuda", ".is_cpu").replace("torch.cuda.current_stream().cuda_stream", "None")
        elif path == "candidate.toml":
            text = 'flags = ["-std=c++17"]\n'
        files[path] = text
    if any(path.endswith(".cpp") for path in files):
        files |= {f"kernels/{shim}": (HERE / shim).read_text() for shim in SHIMS}
    return CandidateFiles(files=files)


def template_on_cpu(name: str, text: str) -> str:
    """A header of the split products: launches become loops; the functions that are one instruction come from the shim, all of
    wgmma.cuh among them."""
    if name == "wgmma.cuh":
        return "#pragma once\n"
    text = re.sub(r"#include <cuda_\w+.h>", "", text)
    text = text.replace("extern __shared__ ", "unsigned char* memory = nullptr;  // ")
    text = TEMPLATE_LAUNCH.sub(r"fibers::launch(int(\2), int(\3), [=] { \1(\4); });", text)
    if name == "gemm_tf32.cuh":
        for function in ("copy_async", "load_matrices", "load_word", "multiply"):
            whole = rf"(template <int WIDTH>\n)?__device__ [^\n]* {function}\(.*?\n}}\n"
            text, count = re.subn(whole, "", text, flags=re.DOTALL)
            assert count == 1, function
        text = re.sub(r'asm volatile\("cp\.async\.(commit_group|wait_group|wait_all).*?;\n', ";\n", text)
        text = text.replace('asm volatile("cp.async.commit_group;");', "")
    assert "asm" not in text
    assert "<<<" not in text
    return text
