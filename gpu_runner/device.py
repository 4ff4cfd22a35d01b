"""What a target is on this machine: the device nodes it needs, and the facts that stand beside every number."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import lru_cache
from pathlib import Path

from gpu_runner import ceilings
from gpu_runner.build_commands import compiler_version, torch_version
from gpu_runner.config import config
from gpu_runner.contracts import DeviceInfo
from gpu_runner.hands import HandsError

_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm")


def device_of(target: str) -> tuple[str, tuple[str, ...]]:
    """(torch's device, device nodes) of a target. Raises HandsError when this machine cannot serve it."""
    if target == "cpu":
        return "cpu", ()
    have = cuda_target()
    if have is None:
        raise HandsError(f"The target {target} needs an NVIDIA GPU, and none is visible here; choose the target cpu.")
    if have != target:
        raise HandsError(f"The target {target} is another architecture than this machine's {have}; choose {have}.")
    return "cuda", (*_NODES, "/dev/nvidia0")


def resolve_target(word: str) -> str:
    """The target behind a word of the command line: `cpu`, `cuda` (the first visible device's architecture), or `sm_90`."""
    if word != "cuda":
        return word
    target = cuda_target()
    if target is None:
        raise HandsError("No NVIDIA GPU is visible here, so there is no target cuda; use --target cpu.")
    return target


@lru_cache(maxsize=1)
def _gpu() -> tuple[str, str, int, str] | None:
    """(name, target, memory in MiB, driver) of the first GPU."""
    query = [
        "nvidia-smi",
        "--query-gpu=name,compute_cap,memory.total,driver_version",
        "--format=csv,noheader,nounits",
        "--id=0",
    ]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True)
        name, capability, memory, driver = (part.strip() for part in done.stdout.splitlines()[0].split(","))
        return name, f"sm_{capability.replace('.', '')}", int(memory), driver
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def cuda_target() -> str | None:
    """The architecture of the first visible GPU, None when there is none."""
    gpu = _gpu()
    return gpu[1] if gpu else None


def llc_bytes() -> int:
    """The size of the last-level cache, 32 MiB when the machine does not say."""
    largest = 0
    for entry in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = entry.read_text().strip()
        unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 1)
        largest = max(largest, int(text.rstrip("KM") or 0) * unit)
    return largest or 32 << 20


def evict_bytes(device: str) -> int:
    """How much to touch so that nothing stays cached: twice the last-level cache, at least 256 MB on a GPU."""
    return 256 << 20 if device != "cpu" else 2 * llc_bytes()


def cpu_name() -> str:
    """The processor's own name; the architecture where it has none, or this is not Linux."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""


def device_info(target: str) -> DeviceInfo:
    """The device behind `target`, with versions and the ceilings measured so far."""
    info = _described(target)
    return info.model_copy(update=ceilings.known(info.name, info.torch))


@lru_cache(maxsize=8)
def _described(target: str) -> DeviceInfo:
    settings = config()
    if target == "cpu":
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
        return DeviceInfo(
            kind="cpu", name=cpu_name(), target=target, cores=settings.threads, memory_mib=memory, torch=torch_version(),
            compiler=_first_line(compiler_version(settings.cxx)), sandbox=settings.sandbox,
        )  # fmt: skip
    gpu = _gpu()
    name, _, memory, driver = gpu or ("unknown", target, 0, "")
    return DeviceInfo(
        kind="gpu", name=name, target=target, memory_mib=memory or None, torch=torch_version(), driver=driver,
        compiler=_first_line(compiler_version(settings.nvcc)), sandbox=settings.sandbox,
    )  # fmt: skip
