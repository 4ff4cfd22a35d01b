"""The machine before and after each round: clocks, throttling, temperature, power, and who else uses the device.

The processor is read from `/proc` and `/sys`, the card through NVML, the library that nvidia-smi itself asks: a look takes less
than a millisecond, a start of that program a tenth of a second. What cannot be read is None.
"""

from __future__ import annotations

import ctypes
import os
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpu_runner.conditions import Reading
from gpu_runner.neighbours import family

_CPUS = Path("/sys/devices/system/cpu")
_SM, _MEMORY = 1, 2  # nvmlClockType_t
_MOST = 1024  # processes, or samples of them
_LATELY_US = 2_000_000
_NOT_FOUND = 6  # nvmlReturn_t


def read(device: str) -> Reading:
    """How things are now. Whatever this process has started may use the card, programs that are kept for later among it."""
    reading = Reading(cpu_mhz=cpu_mhz(), governor=governor(), throttles=_throttles())
    reading.stolen_ticks, reading.ticks = _ticks()
    if device != "cpu" and (nvml := _nvml()) is not None:
        nvml.fill(reading, family(os.getpid()))
    return reading


def cpu_mhz() -> float | None:
    """The mean clock of the processor's cores in MHz. A virtual machine may name one figure for ever."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        values = [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
    except (OSError, ValueError):
        return None
    return round(sum(values) / len(values), 1) if values else None


@lru_cache(maxsize=1)
def governor() -> str:
    """Who chooses the clocks, as the kernel calls it; empty where it does not say (a virtual machine)."""
    names = {_text(path) for path in _CPUS.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return ", ".join(sorted(names - {""}))


def _throttles() -> int | None:
    """How often the processor slowed down for heat since it was started."""
    texts = [_text(path) for path in _throttle_files()]
    return sum(int(text) for text in texts if text.isdecimal()) if texts else None


@lru_cache(maxsize=1)
def _throttle_files() -> tuple[Path, ...]:
    return tuple(_CPUS.glob("cpu[0-9]*/thermal_throttle/core_throttle_count"))


def _ticks() -> tuple[int | None, int | None]:
    """(ticks that the hypervisor gave to others while we wanted to run, ticks of all cores) since the start."""
    try:
        numbers = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return numbers[7], sum(numbers)
    except (OSError, ValueError, IndexError):
        return None, None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


class _Process(ctypes.Structure):
    """nvmlProcessInfo_t."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class _Use(ctypes.Structure):
    """nvmlProcessUtilizationSample_t: shares in per cent since the sample before."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("at_us", ctypes.c_ulonglong),
        ("sm", ctypes.c_uint),
        ("memory", ctypes.c_uint),
        ("encoder", ctypes.c_uint),
        ("decoder", ctypes.c_uint),
    )


class _Nvml:
    """The first card. Every question may be one that this driver or card does not answer."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._card = ctypes.c_void_p()
        if self._library.nvmlInit_v2() or self._library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self._card)):
            raise OSError("NVML cannot be used here")

    def fill(self, reading: Reading, ours: set[int]) -> None:
        reading.sm_mhz = self._ask("nvmlDeviceGetClockInfo", ctypes.c_uint(), _SM)
        reading.memory_mhz = self._ask("nvmlDeviceGetClockInfo", ctypes.c_uint(), _MEMORY)
        reading.temperature_c = self._ask("nvmlDeviceGetTemperature", ctypes.c_uint(), 0)
        milliwatts = self._ask("nvmlDeviceGetPowerUsage", ctypes.c_uint())
        reading.power_w = None if milliwatts is None else milliwatts / 1000
        reading.slowed_by = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong())
        reading.strangers = self._strangers(ours)

    def _ask(self, function: str, answer: Any, *arguments: int) -> int | None:
        try:
            failed = getattr(self._library, function)(self._card, *arguments, ctypes.byref(answer))
        except AttributeError:
            return None
        return None if failed else int(answer.value)

    def _strangers(self, ours: set[int]) -> int | None:
        """How many processes that are not ours had the card at work lately; None where it does not tell.

        To hold memory is no use: a program that rests disturbs nobody. The card's own samples are about a second apart.
        """
        holders, count = (_Process * _MOST)(), ctypes.c_uint(_MOST)
        uses, used = (_Use * _MOST)(), ctypes.c_uint(_MOST)
        since = ctypes.c_ulonglong(time.time_ns() // 1000 - _LATELY_US)
        try:
            failed = self._library.nvmlDeviceGetComputeRunningProcesses_v3(self._card, ctypes.byref(count), holders)
            if failed or not ours & {holder.pid for holder in holders[: count.value]}:
                return None  # in a container it may name processes by the host's ids
            failed = self._library.nvmlDeviceGetProcessUtilization(self._card, uses, ctypes.byref(used), since)
        except AttributeError:
            return None
        if failed == _NOT_FOUND:  # nobody had it at work
            return 0
        return None if failed else len({use.pid for use in uses[: used.value] if use.sm} - ours)


@lru_cache(maxsize=1)
def _nvml() -> _Nvml | None:
    try:
        return _Nvml()
    except (OSError, AttributeError):
        return None


# A handle of the library is not a forked child's to use.
os.register_at_fork(after_in_child=_nvml.cache_clear)
