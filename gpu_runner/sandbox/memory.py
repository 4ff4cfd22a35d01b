"""Memory shared with a sandboxed process: made here, handed over as a file descriptor, never mapped by the parent.

A sealed size is what makes it safe to hand around: a child that could shrink the file would crash whoever has it mapped.
Sealed content is what makes it safe to look at twice.
"""

from __future__ import annotations

import fcntl
import os
from types import TracebackType

_CHUNK = 8 << 20


class Memory:
    """Anonymous memory of a fixed size in bytes, held until `close`.

    >>> with Memory.create(4096) as memory:
    ...     memory.write(b"hello")
    ...     memory.read(5)
    b'hello'
    """

    def __init__(self, fd: int, size: int) -> None:
        self.fd = fd
        self.size = size

    @classmethod
    def create(cls, size: int, name: str = "stitchweb") -> Memory:
        """`size` zero bytes (at least one), not yet backed by pages. Nobody can change the size again."""
        size = max(size, 1)
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, size)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
        except BaseException:
            os.close(fd)
            raise
        return cls(fd, size)

    @classmethod
    def of(cls, data: bytes, name: str = "stitchweb") -> Memory:
        """Holds `data`, read-only for whoever receives it."""
        memory = cls.create(len(data), name)
        try:
            memory.write(data)
            if not memory.seal():
                raise OSError("a memory that nobody else has could not be sealed")
        except BaseException:
            memory.close()
            raise
        return memory

    def seal(self) -> bool:
        """Makes the content final, whoever has the descriptor; False when somebody may still change it.

        The kernel refuses while a writable mapping exists anywhere, so True is a proof. A process that has the descriptor can
        forbid seals, which is False as well.
        """
        try:
            if not fcntl.fcntl(self.fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE:
                fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL)
        except OSError:
            return False
        return True

    def copy(self, size: int) -> Memory:
        """The first `size` bytes as they are now, in a sealed memory that nobody else has a hold on."""
        made = Memory.create(size)
        try:
            for start in range(0, size, _CHUNK):
                made.write(os.pread(self.fd, min(_CHUNK, size - start), start), start)
            if not made.seal():
                raise OSError("a memory that nobody else has could not be sealed")
        except BaseException:
            made.close()
            raise
        return made

    def write(self, data: bytes, start: int = 0) -> None:
        """Puts `data` at byte `start`."""
        if not 0 <= start <= self.size - len(data):
            raise ValueError(f"{len(data)} bytes at {start} do not fit a memory of {self.size}")
        left = memoryview(data)
        while left:
            written = os.pwrite(self.fd, left, start)
            left, start = left[written:], start + written

    def read(self, size: int) -> bytes:
        """A private copy of the first `size` bytes."""
        if not 0 <= size <= self.size:
            raise ValueError(f"{size} bytes were asked of a memory of {self.size}")
        return b"".join(os.pread(self.fd, min(_CHUNK, size - start), start) for start in range(0, size, _CHUNK))

    def close(self) -> None:
        """Gives the pages back, once nobody has them mapped. Safe to call twice."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
