"""Memory shared with a sandboxed process: made and sealed here, handed over as a file descriptor.

A sealed size is what makes it safe to read: a child that could shrink the file would crash the parent that has it mapped.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from types import TracebackType

_SEAL_FUTURE_WRITE = 0x10  # fcntl has the name from Python 3.13 on


class Memory:
    """Anonymous memory of a fixed size in bytes. The parent keeps it mapped (`view`, writable) until `close`.

    >>> with Memory.create(4096) as memory:
    ...     memory.view[:5] = b"hello"
    """

    def __init__(self, fd: int, size: int) -> None:
        self.fd = fd
        self.size = size
        self._map = mmap.mmap(fd, size)
        self.view = memoryview(self._map)

    @classmethod
    def create(cls, size: int, name: str = "stitchweb") -> Memory:
        """`size` zero bytes (at least one), not yet backed by pages. Nobody can change the size again."""
        size = max(size, 1)
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, size)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
            return cls(fd, size)
        except BaseException:
            os.close(fd)
            raise

    @classmethod
    def of(cls, data: bytes, name: str = "stitchweb") -> Memory:
        """Holds `data`, read-only for whoever receives it."""
        memory = cls.create(len(data), name)
        memory.view[: len(data)] = data
        memory.seal_read_only()
        return memory

    def seal_read_only(self) -> None:
        """Whoever maps it from now on can only read; the parent's own `view` stays writable. Call before handing it over."""
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _SEAL_FUTURE_WRITE | fcntl.F_SEAL_SEAL)

    def read(self, size: int) -> bytes:
        """A private copy of the first `size` bytes. Look at the copy, never at `view`, when the child may still write."""
        if not 0 <= size <= self.size:
            raise ValueError(f"{size} bytes were asked of a memory of {self.size}")
        return bytes(self.view[:size])

    def close(self) -> None:
        """Gives the pages back. Safe to call twice; views taken from `view` must be gone."""
        if self.fd >= 0:
            self.view.release()
            self._map.close()
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
