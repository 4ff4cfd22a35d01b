"""Keeps the head and the tail of what a process prints, and counts all of it."""

from __future__ import annotations

import re

HEAD_BYTES = 8_192
TAIL_BYTES = 8_192
# ECMA-48 control sequences, then the strings that a terminal takes for commands (title, clipboard), then the short ones.
_TERMINAL = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def readable(text: str) -> str:
    """Untrusted text as people may see it, in a terminal too: without commands to terminals, lines ended by line feeds alone,
    other control characters and changes of direction as the replacement character."""
    text = _TERMINAL.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("\ufffd", text)


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
        """Untrusted text: invalid UTF-8 is replaced, whoever shows it makes it `readable`."""
        left_out = self.total - len(self._head) - len(self._tail)
        gap = f"\n… {left_out} bytes left out …\n".encode() if left_out else b""
        return (bytes(self._head) + gap + bytes(self._tail)).decode("utf-8", "replace")
