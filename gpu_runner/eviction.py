"""Empties the processor's caches between calls, from this process: a program has no hand in the memory that is read for it."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import threading
from collections.abc import Sequence
from queue import SimpleQueue

_FILL, _ABSENT = 1, 2
_PIECE = 1 << 20
_search = ctypes.CDLL(None).memchr  # reads every byte where it does not find the value, and lets other threads of Python run
_search.argtypes, _search.restype = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t), ctypes.c_void_p


class Eviction:
    """`size` bytes of nobody else, read by a thread on each of `cores`: a core's own caches as well as the shared one.

    Getting the memory costs more than many readings: see `shared`. The threads stay, too: whoever watches what runs on this
    machine looks everything up anew after each that was started.
    """

    def __init__(self, size: int, cores: Sequence[int]) -> None:
        self._memory = mmap.mmap(-1, max(size, len(cores) * _PIECE), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel without them; it takes longer then
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        # Written to, since memory that never was is one page of zeros, however much of it is read.
        ctypes.memset(self._address, _FILL, len(self._memory))
        self._share = len(self._memory) // len(cores)
        self._turns: list[SimpleQueue[int]] = [SimpleQueue() for _ in cores]
        self._done: SimpleQueue[int] = SimpleQueue()
        self._turn = 0
        for number, core in enumerate(cores):
            threading.Thread(target=self._read, args=(number, core), name="stitchweb-eviction", daemon=True).start()

    def evict(self) -> None:
        """Returns when all of it was read. Not from two threads at once."""
        self._turn += 1
        for turn in self._turns:
            turn.put(self._turn)
        left = len(self._turns)
        while left:  # what is left of a turn that was interrupted does not count
            left -= self._done.get() == self._turn

    def close(self) -> None:
        """Ends the threads."""
        for turn in self._turns:
            turn.put(0)

    def _read(self, number: int, core: int) -> None:
        os.sched_setaffinity(0, {core})  # of this thread alone
        while turn := self._turns[number].get():
            _search(self._address + number * self._share, _ABSENT, self._share)
            self._done.put(turn)


_kept: list[tuple[tuple[int, tuple[int, ...]], Eviction]] = []


def shared(size: int, cores: tuple[int, ...]) -> Eviction:
    """This process' own, kept from timing to timing."""
    if not _kept or _kept[0][0] != (size, cores):
        for _, old in _kept:
            old.close()
        _kept[:] = [((size, cores), Eviction(size, cores))]
    return _kept[0][1]


os.register_at_fork(after_in_child=_kept.clear)  # its threads stay with the parent
