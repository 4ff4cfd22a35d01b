"""Which sanitizers this machine has, and how a process is started under them."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from gpu_runner.build_commands import compiler_version
from gpu_runner.config import config
from gpu_runner.sandbox.spec import Tool

# A report ends the process: what runs on after a broken access proves nothing. Leaks at the end are Python's and torch's.
_ADDRESS = (
    "detect_leaks=0:verify_asan_link_order=0:halt_on_error=1:alloc_dealloc_mismatch=0:detect_odr_violation=0:"
    "quarantine_size_mb=64:malloc_context_size=6:print_legend=0:allocator_may_return_null=1:handle_abort=0"
)
_THREAD = "halt_on_error=0:report_bugs=1:report_thread_leaks=0:report_signal_unsafe=0:exitcode=0:history_size=2"
_PRELOADED = {"address": ("libasan.so", {"ASAN_OPTIONS": _ADDRESS}), "thread": ("libtsan.so", {"TSAN_OPTIONS": _THREAD})}
_COMPUTE = ("/usr/local/cuda/compute-sanitizer/compute-sanitizer", "compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer")
CUDA_TOOLS: dict[str, tuple[str, ...]] = {
    "memcheck": ("--leak-check", "no", "--report-api-errors", "no"),
    "initcheck": ("--report-api-errors", "no"),
    "racecheck": ("--racecheck-report", "analysis"),
}


class NoTool(Exception):
    """This machine lacks a sanitizer. The message is a sentence with its fix."""


@lru_cache(maxsize=8)
def _library(compiler: str, name: str) -> str:
    """The run-time library that belongs to the compiler, by its full path. Raises NoTool."""
    version = compiler_version(compiler)
    if "clang" in version.lower():
        raise NoTool(f"{compiler} is clang, and GCC's sanitizers are the ones used: name g++ in RUNNER_CXX")
    path = shutil.which(compiler, path="/usr/local/bin:/usr/bin:/bin")
    if path is None:
        raise NoTool(f"the compiler {compiler} was not found: install it, or name yours in RUNNER_CXX")
    asked = subprocess.run(
        [path, f"-print-file-name={name}"], capture_output=True, text=True, timeout=30, check=False
    ).stdout.strip()
    if not os.path.isabs(asked) or not os.path.exists(asked):
        raise NoTool(f"{compiler} has no {name} on this machine: install GCC's sanitizer libraries")
    return os.path.realpath(asked)


def preloaded(tool: str) -> Tool:
    """How a process runs that may load a library built with the sanitizer `address` or `thread`. Raises NoTool."""
    name, options = _PRELOADED[tool]
    return Tool(environment={"LD_PRELOAD": _library(config().cxx, name), **options})


@lru_cache(maxsize=1)
def compute_sanitizer() -> str:
    """compute-sanitizer's path, resolved: it finds its own libraries beside it. Raises NoTool."""
    beside = [str(Path(found).parent.parent / "compute-sanitizer" / "compute-sanitizer") for found in _nvcc()]
    for name in (*_COMPUTE, *beside, *sorted(glob.glob("/usr/local/cuda-*/compute-sanitizer/compute-sanitizer"))):
        if (path := shutil.which(name)) is not None:
            return os.path.realpath(path)
    raise NoTool("compute-sanitizer was not found: install the CUDA toolkit's, or put it on the PATH")


def _nvcc() -> list[str]:
    path = shutil.which(config().nvcc)
    return [os.path.realpath(path)] if path else []


def under_compute_sanitizer(tool: str) -> Tool:
    """How a CUDA process runs under one of `CUDA_TOOLS`. Raises NoTool."""
    common = ("--target-processes", "application-only", "--print-limit", "10", "--show-backtrace", "device")
    prefix = (compute_sanitizer(), "--tool", tool, *common, *CUDA_TOOLS[tool])
    # Every tensor an allocation of its own, or its neighbour in the allocator's block would hide what reaches too far.
    return Tool(prefix=prefix, environment={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
