"""What a program launched on the device: kernels by name and time, and the errors that its CUDA runtime remembers."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import torch

_CDLL = ctypes.CDLL  # before any candidate's, or our own timing of calls, stands in its place
_NAME = 1000  # characters of a kernel's name
_MOST = 2000  # kinds of activity
# Answers rather than failures: work is not done yet; what was to be switched on is on already.
_NO_ERRORS = (0, 600, 704)


class LaunchErrors:
    """The last error of the runtime that is linked into the candidate's library, which torch's runtime does not know of.

    A launch that failed (too many threads, too much shared memory) returns nothing: the result is whatever the memory held.
    """

    def __init__(self, library: str) -> None:
        self._library = library
        self._ask: Any = None

    def take(self) -> str:
        """The error's name, once: it is cleared. Empty where there is none, or the library was not opened."""
        if self._ask is None:
            try:
                loaded = _CDLL(self._library, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
                self._ask = loaded.stitchweb_last_error
            except (OSError, AttributeError):
                return ""
            self._ask.restype, self._ask.argtypes = ctypes.c_char_p, [ctypes.POINTER(ctypes.c_int)]
        number = ctypes.c_int(0)
        name = self._ask(ctypes.byref(number))
        return "" if number.value in _NO_ERRORS else (name or b"an unknown error").decode("ascii", "replace")


def measured(forward: Any) -> list[list[Any]]:
    """Rows `[kind, name, count, nanoseconds]` of what one call of `forward` had the device do. Kinds: kernel, memcpy, memset.

    The call must end with a device that rests. Never used for a time that is claimed.
    """
    forward()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        forward()
    totals: dict[tuple[str, str], list[int]] = {}
    for event in profiler.profiler.kineto_results.events():
        if event.device_type() != torch.autograd.DeviceType.CUDA:
            continue
        name = event.name()
        if name.startswith(("gpu_user_annotation", "Context Sync", "Stream Wait", "Event Sync", "Stream Sync")):
            continue
        kind = "memcpy" if name.startswith("Memcpy") else "memset" if name.startswith("Memset") else "kernel"
        entry = totals.setdefault((kind, name[:_NAME]), [0, 0])
        entry[0] += 1
        entry[1] += int(event.duration_ns())
    rows = [[kind, name, count, ns] for (kind, name), (count, ns) in totals.items()]
    return sorted(rows, key=lambda row: -row[3])[:_MOST]
