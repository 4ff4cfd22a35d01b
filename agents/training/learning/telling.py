"""Lines of JSON to whoever started this process; all that libraries print goes to standard error."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from typing import Any, TextIO


class Teller:
    """Writes one JSON object a line. Only the first of several ranks does."""

    def __init__(self, out: TextIO | None) -> None:
        self._out = out
        self._lock = threading.Lock()

    @classmethod
    def of_this_process(cls) -> Teller:
        """Over the standard output that this process was started with, which nothing else gets any more."""
        own = os.dup(1)
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        return cls(os.fdopen(own, "w", encoding="utf-8"))

    def hush(self) -> None:
        """Tell nothing more: another rank does."""
        self._out = None

    def tell(self, kind: str, **more: Any) -> None:
        """A line. Numbers that JSON has none for become null."""
        if self._out is None:
            return
        line = {"kind": kind} | {key: _plain(value) for key, value in more.items()}
        with self._lock:
            self._out.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._out.flush()


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
