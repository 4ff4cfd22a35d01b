"""Keeps the head and the tail of what a process prints, and counts all of it."""

from __future__ import annotations

HEAD_BYTES = 8_192
TAIL_BYTES = 8_192


class Capture:
    """Bounded whatever is fed to it."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._head_size, self._tail_size = head, tail
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        room = self._head_size - len(self._head)
        self._head += data[:room]
        self._tail = (self._tail + data[room:])[-self._tail_size :]

    @property
    def text(self) -> str:
        """Untrusted text: invalid UTF-8 is replaced, control characters are left to whoever shows it."""
        left_out = self.total - len(self._head) - len(self._tail)
        gap = f"\n… {left_out} bytes left out …\n".encode() if left_out else b""
        return (bytes(self._head) + gap + bytes(self._tail)).decode("utf-8", "replace")
