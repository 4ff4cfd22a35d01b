"""The generated program. This process never holds a seed, an expected result or an input before its turn."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import torch

from . import arm, launches, loading, native, own, patches, profiling, state, tensors
from .loading import Refused

MODULE = "model_new"
CLASS = "ModelNew"
FOLDER = "candidate"


LIBRARY = "libkernels.so"


class Candidate:
    """The loaded program and its calls: `ModelNew`, or the function that `entry` describes."""

    def __init__(self, payload: dict[str, Any]) -> None:
        device, mode, precision = payload["device"], payload["mode"], payload["precision"]
        arm.set_precision(precision)
        folder = os.path.abspath(FOLDER)
        if payload.get("coverage"):
            own.install(folder)
        patches.remember()
        if payload.get("entry"):
            self.model = native.NativeModel(payload["entry"], os.path.join(folder, LIBRARY), device)
        else:
            self.model = _constructed(folder, payload["init_inputs"], device, mode)
        self.device = device
        self.current = state.snapshot(self.model)
        self.arm = arm.Arm(self.model, device, precision, self.owned)
        self.errors = launches.LaunchErrors(os.path.join(folder, LIBRARY)) if device != "cpu" else None

    def failed_launch(self) -> None:
        """Raises Refused when the call left an error in the library's CUDA runtime."""
        if self.errors is not None and (name := self.errors.take()):
            raise Refused(
                "launch_failed",
                f"A CUDA call of the program failed and was not handled: {name}.",
                "Check what each launch asks for (threads, shared memory, sizes of zero), and clear errors that are expected.",
            )

    def launched(self, payload: dict[str, Any], fd: int) -> dict[str, Any]:
        """What one forward has the device do, by the profiler."""
        inputs = tensors.read(payload["inputs"], fd, self.device)

        def forward() -> None:  # and nothing else: `Arm.go` reads results, which has the device work too
            with arm.arithmetic(self.arm.precision, self.device):
                self.model(*inputs)
            torch.cuda.synchronize()

        rows = launches.measured(forward)
        return {"rows": rows}

    def weights(self, payload: dict[str, Any], fd: int) -> dict[str, Any]:
        """Load the reference's weights by name. A difference of names or shapes is refused with both lists."""
        given = tensors.read(payload["weights"], fd, self.device)
        if isinstance(self.model, native.NativeModel):
            self.model.adopt(given, set(payload["weights"].get("buffers", [])))
            self.current = state.snapshot(self.model)
            return {}
        difference = state.mismatch(self.model, given)
        if difference:
            raise Refused(
                "weights_differ",
                f"{CLASS} does not have the reference's parameters and buffers: {difference}.",
                "Keep the same names and shapes, so that the weights can be copied.",
            )
        state.load(self.model, given)
        self.current = state.snapshot(self.model)
        return {}

    def owned(self) -> state.Owned:
        """The program's own tensors, as they are now."""
        return self.model.owned() if type(self.model) is native.NativeModel else state.owned(self.model)

    def buffers(self, fd: int) -> dict[str, Any]:
        """The buffers of the state dict as they are now."""
        return {"buffers": tensors.write(self.owned().buffers, fd)}

    def coverage(self, payload: dict[str, Any], fd: int) -> dict[str, Any]:
        """Nanoseconds of `calls` forwards, and those of them inside the candidate's own functions."""
        inputs = tensors.read(payload["inputs"], fd, self.device)
        total = 0
        own.reset()
        for _ in range(payload["calls"]):
            self.arm.inputs = inputs
            total += self.arm.go()["ns"]
        inside, calls = own.spent()
        return {"total_ns": total, "own_ns": inside, "own_calls": calls, "unseen": _opens_library() and not own.loaded()}

    def watched(self, payload: dict[str, Any], fd: int) -> dict[str, Any]:
        """Forwards while a sanitizer watches; what they return is of no interest."""
        inputs = tensors.map_tensors(tensors.read(payload["inputs"], fd, self.device), _exact)
        for _ in range(payload["calls"]):
            self.arm.inputs = list(inputs)
            self.arm.go()
        self.arm.forget()
        return {}


def _exact(tensor: torch.Tensor) -> torch.Tensor:
    """The same content in memory of its own, with nothing of ours right before or after it."""
    return tensor.clone() if 0 not in tensor.stride() else tensor


def _constructed(folder: str, init_inputs: Any, device: str, mode: str) -> Any:
    """`ModelNew` out of the candidate's own Python. Raises Refused."""
    sys.path.insert(0, folder)
    module, _ = loading.execute(os.path.join(folder, f"{MODULE}.py"), MODULE)
    cls = getattr(module, CLASS, None)
    if not (isinstance(cls, type) and issubclass(cls, torch.nn.Module)):
        raise Refused("no_model_new", f"{MODULE}.py defines no nn.Module named {CLASS}.", f"Name the class {CLASS}.")
    args, kwargs = loading.init_arguments(init_inputs)
    try:
        return loading.construct(cls, args, kwargs, device, mode)
    except (Exception, SystemExit) as error:
        raise loading.crash("crash_init", f"{CLASS}(...)", error, folder) from error


def _opens_library() -> bool:
    """Whether a library of the candidate's folder is mapped, however it was opened."""
    with open("/proc/self/maps") as maps:
        return any(f"/{FOLDER}/" in line and ".so" in line for line in maps)


_held: dict[str, Candidate] = {}


def handle(kind: str, payload: dict[str, Any], fds: list[int], emit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """One request. What the candidate does wrong comes back as `{"refusal": {...}}`."""
    try:
        if kind == "load":
            _held["it"] = Candidate(payload)
            return {}
        return _answer(_held["it"], kind, payload, fds)
    except Refused as error:
        return {"refusal": error.as_dict()}
    finally:
        for fd in fds:
            os.close(fd)


def _answer(it: Candidate, kind: str, payload: dict[str, Any], fds: list[int]) -> dict[str, Any]:
    try:
        if kind == "prepare" and payload.get("restore"):
            state.restore(it.model, it.current)
        if kind == "collect":  # not with the call: to ask takes time, which the clock outside would see of no other arm
            it.failed_launch()
        reply = arm.serve(it.arm, kind, payload, fds)
        if reply is not None:
            if kind == "collect" and payload.get("watch") and "facts" in reply:
                reply["facts"]["changed_weights"] = state.changed_parameters(it.model, it.current)
            return reply
        if kind == "launched":
            return it.launched(payload, fds[0])
        if kind == "weights":
            return it.weights(payload, fds[0])
        if kind == "buffers":
            return it.buffers(fds[0])
        if kind == "mute":
            own.mute(payload["on"])
            return {}
        if kind == "patches":
            return patches.found()
        if kind == "coverage":
            return it.coverage(payload, fds[0])
        if kind == "watched":
            return it.watched(payload, fds[0])
        if kind == "profile":
            return profiling.profile(it.arm, payload, fds[0])
    except Refused:
        raise
    except (Exception, SystemExit) as error:
        where = {"go": "forward(...)", "weights": "load_state_dict(...)"}.get(kind, "forward(...)")
        raise loading.crash("crash_forward", where, error, os.path.abspath(FOLDER)) from error
    raise ValueError(f"a candidate does not answer {kind!r}")
