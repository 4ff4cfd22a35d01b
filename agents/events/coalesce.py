"""Many small pieces of text become few: what streams in is shown at a bounded rate and in bounded pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator

MAX_TEXT_BYTES = 6000  # of one message as JSON; with its wrapping it stays under the bound of a payload
MAX_WAITING = 16_000  # characters of one stream between two messages; the whole text of a build or a check is a blob anyway


class Coalescer:
    """Collects text per stream and hands it out at most once per `interval_s` seconds and stream, as payloads of `log.lines`.

    Not thread-safe: one per step. `flush` at the end of the step hands out what still waits.
    """

    def __init__(self, interval_s: float = 0.25) -> None:
        self.interval_s = interval_s
        self._text: dict[str, str] = {}
        self._last: dict[str, float] = {}

    def add(self, stream: str, text: str, at: float) -> list[dict[str, str]]:
        """Takes in text at time `at` (seconds); returns the payloads that are due now."""
        text = text.encode(errors="replace").decode()  # lone surrogates have no bytes
        self._text[stream] = self._text.get(stream, "") + text
        if at - self._last.get(stream, float("-inf")) < self.interval_s:
            return []
        self._last[stream] = at
        return self._take(stream)

    def flush(self) -> list[dict[str, str]]:
        """The payloads of everything that waits."""
        return [payload for stream in list(self._text) for payload in self._take(stream)]

    def _take(self, stream: str) -> list[dict[str, str]]:
        text = self._text.pop(stream, "")
        left_out = len(text) - MAX_WAITING
        if left_out > 0:
            text = f"… {left_out} characters left out …\n{text[left_out:]}"
        return [{"stream": stream, "text": piece} for piece in pieces(text)]


def pieces(text: str) -> Iterator[str]:
    """The text in parts of at most `MAX_TEXT_BYTES` as JSON."""
    while text:
        size = MAX_TEXT_BYTES
        while len(json.dumps(text[:size], ensure_ascii=False).encode()) > MAX_TEXT_BYTES:
            size //= 2
        yield text[:size]
        text = text[size:]
