"""Which time is spent in the candidate's own kernels: foreign functions are timed around the call.

Installed before the candidate is imported, and only in the process that is checked or profiled, never in the one that is
timed. A program can undo it; what it gains is a label, not a verdict.
"""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

import torch

_clock = time.perf_counter_ns
_state: dict[str, Any] = {"ns": 0, "calls": 0, "annotate": False, "muted": False, "loaded": 0}


_answers: dict[str, Any] = {}  # the last one of every function


def annotate(on: bool) -> None:
    """Make every own call a named range of the profiler."""
    _state["annotate"] = on


def mute(on: bool) -> None:
    """Make own functions do nothing but answer what they answered last: a result that is right all the same does not come from
    them."""
    _state["muted"] = on


def loaded() -> int:
    """How many of the candidate's libraries were opened where we see their calls."""
    return int(_state["loaded"])


def reset() -> None:
    _state.update(ns=0, calls=0)


def spent() -> tuple[int, int]:
    """(nanoseconds inside own functions, number of calls) since `reset`."""
    return _state["ns"], _state["calls"]


def _timed(call: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if _state["muted"]:
        return _answers.get(name, 0)
    start = _clock()
    try:
        if _state["annotate"]:
            with torch.profiler.record_function(f"own:{name}"):
                answer = call(*args, **kwargs)
        else:
            answer = call(*args, **kwargs)
        _answers[name] = answer
        return answer
    finally:
        _state["ns"] += _clock() - start
        _state["calls"] += 1


def _timed_pointer(base: Any) -> Any:
    class TimedFunction(base):
        _flags_ = base._flags_
        _restype_ = base._restype_

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return _timed(super().__call__, getattr(self, "__name__", "function"), args, kwargs)

    return TimedFunction


def install(folder: str) -> None:
    """Time every function of the libraries that lie in `folder` and are loaded through ctypes."""
    real = ctypes.CDLL

    class CDLL(real):  # type: ignore[misc, valid-type]
        def __init__(self, name: Any, *args: Any, **kwargs: Any) -> None:
            super().__init__(name, *args, **kwargs)
            path = os.path.realpath(os.fspath(name)) if name else ""
            if path.startswith(folder + os.sep):
                _state["loaded"] += 1
                self._FuncPtr = _timed_pointer(self._FuncPtr)

    CDLL.__name__ = CDLL.__qualname__ = real.__name__
    ctypes.CDLL = CDLL  # type: ignore[misc]
    ctypes.cdll._dlltype = CDLL
