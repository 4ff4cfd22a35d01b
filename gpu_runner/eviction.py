"""Empties the processor's caches between calls, from this process: a program has no hand in the memory that is read for it."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import threading
from collections.abc import Sequence
from functools import lru_cache

_FILL, _ABSENT = 1, 2
_PIECE = 1 << 20
_search = ctypes.CDLL(None).memchr  # reads every byte where it does not find the value, and lets other threads of Python run
_search.argtypes, _search.restype = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t), ctypes.c_void_p


class Eviction:
    """`size` bytes of nobody else, read by a thread on each of `cores`: a core's own caches as well as the shared one.

    Getting the memory costs more than many readings: see `shared`.
    """

    def __init__(self, size: int, cores: Sequence[int]) -> None:
        self._memory = mmap.mmap(-1, max(size, len(cores) * _PIECE), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel without them; it takes longer then
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        # Written to, since memory that never was is one page of zeros, however much of it is read.
        ctypes.memset(self._address, _FILL, len(self._memory))
        self._cores, self._share = tuple(cores), len(self._memory) // len(cores)

    def evict(self) -> None:
        """Returns when all of it was read."""
        readers = [threading.Thread(target=self._read, args=(number, core)) for number, core in enumerate(self._cores)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()

    def _read(self, number: int, core: int) -> None:
        os.sched_setaffinity(0, {core})  # of this thread alone
        _search(self._address + number * self._share, _ABSENT, self._share)


@lru_cache(maxsize=1)
def shared(size: int, cores: tuple[int, ...]) -> Eviction:
    """This process' own, kept from timing to timing."""
    return Eviction(size, cores)
