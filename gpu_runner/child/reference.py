"""The user's program: inputs, weights, results, an fp64 twin, and what the analysis asks. Also the eager and compiled arms."""

from __future__ import annotations

import copy
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from . import arm, compiling, counting, loading, profiling, selections, state, tensors, tracing, variants
from .loading import Refused

_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "DefaultCPUAllocator")


class Reference:
    """Everything the process holds of the user's program."""

    def __init__(self, payload: dict[str, Any]) -> None:
        self.device, self.mode, self.precision = payload["device"], payload["mode"], payload["precision"]
        arm.set_precision(self.precision)
        self.program = loading.load_reference(payload.get("entry", ""))
        try:
            program = self.program
            self.model = loading.construct(program.cls, program.init_args, program.init_kwargs, self.device, self.mode)
        except (Exception, SystemExit) as error:
            raise failure("crash_init", f"{self.program.entry}(...)", error) from error
        self.initial = state.snapshot(self.model)
        self.current = self.initial
        self._double: Any = None
        self._drawn: list[Any] = []
        called: Any = self.model
        if payload.get("compile"):
            compiling.limit_threads(payload["compile_threads"])
            if payload["untimed"]:
                compiling.time_nothing()
            called = torch.compile(self.model, mode=None if payload["compile"] == "default" else payload["compile"])
        self.arm = arm.Arm(called, self.device, self.precision, lambda: state.owned(self.model))

    def facts(self) -> dict[str, Any]:
        parameters = list(self.model.parameters())
        return {
            "entry": self.program.entry,
            "init_inputs": self.program.init_literal,
            "parameters": sum(p.numel() for p in parameters),
            "parameter_bytes": sum(p.numel() * p.element_size() for p in parameters),
            "plain_weights": all(bool((v == v.reshape(-1)[:1]).all()) for v in self.initial.values()),
            "buffers": sum(1 for _ in self.model.buffers()),
            "torch": torch.__version__,
            "tf32": self._may_use_tf32(),
            "dropout": self.mode != "eval" and any("Dropout" in type(m).__name__ for m in self.model.modules()),
        }

    def _may_use_tf32(self) -> bool:
        """Whether cuDNN may compute parts of it in TF32: PyTorch allows it by default, and each algorithm does as it likes."""
        cudnn = (torch.nn.modules.conv._ConvNd, torch.nn.RNNBase)
        allowed = self.device != "cpu" and torch.backends.cudnn.allow_tf32
        return allowed and any(isinstance(module, cudnn) for module in self.model.modules())

    def inputs(self, seed: int) -> list[Any]:
        """One draw of the user's `get_inputs()` under a seed, as a list of arguments."""
        torch.manual_seed(seed)
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed & 0xFFFFFFFF)
        try:
            value = self.program.get_inputs()
        except (Exception, SystemExit) as error:
            raise failure("crash_inputs", "get_inputs()", error) from error
        if isinstance(value, torch.Tensor):
            value = [value]
        if not isinstance(value, list | tuple):
            raise Refused(
                "inputs_not_list",
                f"get_inputs() returned a {type(value).__name__}; the list of arguments of forward is expected.",
                "Return a list, also for a single tensor: return [x].",
            )
        return list(value)

    def draw(self, payload: dict[str, Any], fd: int) -> dict[str, Any]:
        """Inputs into shared memory. `variant` names a structured draw; `scale`: the least factor that
        floating-point content is multiplied by; `jitter` moves it by a rounding; `batch` names another size of it."""
        started = time.perf_counter()
        # `reuse` spares a slow generator: the draw before, times another scale.
        again = payload.get("reuse") and variants.scalable(self._drawn)
        values = self._drawn if again else self.inputs(payload["seed"])
        self._drawn = values
        variant, scale = payload.get("variant"), payload.get("scale")
        size = None
        if payload.get("batch"):
            values, size = variants.resized(values, payload["batch"]) or (None, None)
        elif variant:
            values = variants.apply(variant, values, payload["seed"])
        if values is None:
            return {"unchanged": True}
        if scale is not None:
            with arm.one_thread():
                values = variants.scaled(values, scale, payload["seed"])
        if payload.get("jitter"):
            values = variants.jittered(values, payload["seed"])
        try:
            manifest = tensors.write(values, fd)
        except tensors.Unsupported as error:
            raise Refused("unsupported_inputs", f"The inputs are not supported: {error}.", "") from error
        prints = [tensors.fingerprint(t) for t in tensors.tensors_in(values)] if payload.get("prints") else []
        return {"inputs": manifest, "prints": prints, "seconds": time.perf_counter() - started, "batch": size}

    def weights(self, payload: dict[str, Any], fd: int) -> dict[str, Any]:
        """Take the weights of the construction, or (with `seed`) a draw that leaves nothing trivial; export them by name."""
        state.restore(self.model, self.initial)
        if payload.get("rebuild") is not None:
            program = self.program
            torch.manual_seed(payload["rebuild"])
            fresh = program.cls(*program.init_args, **program.init_kwargs).to(self.device)
            state.restore(self.model, state.snapshot(fresh))
        if payload.get("seed") is not None:
            state.randomise(self.model, payload["seed"])
        self.current = state.snapshot(self.model)
        self._double = None
        names = [name for name, _ in self.model.named_buffers() if name in self.current]
        # For a program that has no module to tell them from parameters.
        return {"weights": state.export(self.current, fd) | {"buffers": names}}

    def buffers(self, fd: int) -> dict[str, Any]:
        """The buffers of the state dict as they are now."""
        return {"buffers": tensors.write(state.owned(self.model).buffers, fd)}

    def forward(self, inputs: list[Any]) -> Any:
        with arm.arithmetic(self.precision, self.device):
            return self.model(*inputs)

    def double(self, payload: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """The results of the same program in double precision, or the reason why it has none."""
        started = time.perf_counter()
        try:
            if self._double is None:
                # The twin is put back, not the model: its buffers are still to be compared after a call.
                twin = copy.deepcopy(self.model)
                state.restore(twin, self.current)
                self._double = twin.double()
                if self.mode in ("eval", "train"):
                    self._double.train(self.mode == "train")
            inputs = tensors.map_tensors(tensors.read(payload["inputs"], fds[0], self.device), _widen)
            with torch.no_grad():
                output = self._double(*inputs)
            manifest = tensors.write(output, fds[1])
        except Exception as error:  # a hard-coded dtype, a kernel without fp64: eager is then the only witness
            return {"reason": f"{type(error).__name__}: {str(error)[:300]}"}
        return {"output": manifest, "seconds": time.perf_counter() - started}

    def determinism(self, payload: dict[str, Any], fd: int) -> dict[str, Any]:
        """Run twice on equal inputs under different random states, with the buffers put back in between."""
        results = []
        for seed in (11, 22):
            state.restore(self.model, self.current)
            torch.manual_seed(seed)
            random.seed(seed)
            results.append(tensors.tensors_in(self.forward(tensors.read(payload["inputs"], fd, self.device))))
        state.restore(self.model, self.current)
        first, second = results
        if [(t.shape, t.dtype) for t in first] != [(t.shape, t.dtype) for t in second]:
            return {"identical": False, "close": False}
        identical = all(tensors.fingerprint(a) == tensors.fingerprint(b) for a, b in zip(first, second, strict=True))
        close = identical or all(_close(a, b) for a, b in zip(first, second, strict=True))
        return {"identical": identical, "close": close}

    def other_batch(self, payload: dict[str, Any], fd: int) -> dict[str, Any]:
        """Whether the program also accepts half its batch: None when the inputs have no common first dimension."""
        inputs = tensors.read(payload["inputs"], fd, self.device)
        smaller = variants.halved(inputs)
        if smaller is None:
            return {"other_batch": None}
        try:
            self.forward(smaller)
        except Exception:
            return {"other_batch": False}
        finally:
            state.restore(self.model, self.current)
        return {"other_batch": True}


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    if not (a.is_floating_point() or a.is_complex()):
        return torch.equal(a, b)
    wide = torch.complex128 if a.is_complex() else torch.float64
    a, b = a.to(wide), b.to(wide)
    scale = float(b.abs().nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt()) if b.numel() else 0.0
    return torch.allclose(a, b, rtol=1e-3, atol=1e-3 * scale, equal_nan=True)


def failure(code: str, where: str, error: BaseException) -> Refused:
    """The refusal behind an exception of the user's code; memory has a code of its own."""
    if isinstance(error, MemoryError) or any(text in str(error) for text in _OUT_OF_MEMORY):
        return loading.crash(
            "out_of_memory", where, error, os.getcwd(), "Make the inputs or the model smaller, or raise the memory limit."
        )
    return loading.crash(code, where, error, os.getcwd())


_held: dict[str, Reference] = {}


def handle(kind: str, payload: dict[str, Any], fds: list[int], emit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """One request. What the user's program does wrong comes back as `{"refusal": {...}}`."""
    try:
        if kind == "load":
            _held["it"] = Reference(payload)
            return _held["it"].facts()
        return _answer(_held["it"], kind, payload, fds)
    except Refused as error:
        return {"refusal": error.as_dict()}
    finally:
        for fd in fds:
            os.close(fd)


def _answer(it: Reference, kind: str, payload: dict[str, Any], fds: list[int]) -> dict[str, Any]:
    if kind in ("prepare", "wake", "go", "collect"):
        if kind == "prepare" and payload.get("restore"):
            state.restore(it.model, it.current)
        try:
            reply = arm.serve(it.arm, kind, payload, fds)
        except (Exception, SystemExit) as error:
            raise failure("crash_forward", "forward(...)", error) from error
        if reply and kind == "collect" and payload.get("watch") and "facts" in reply:
            reply["facts"]["changed_weights"] = state.changed_parameters(it.model, it.current)
        return reply or {}
    if kind == "draw":
        return it.draw(payload, fds[0])
    if kind == "weights":
        return it.weights(payload, fds[0])
    if kind == "double":
        return it.double(payload, fds)
    if kind == "buffers":
        return it.buffers(fds[0])
    if kind == "forget":
        it.arm.forget()
        return {}
    if kind == "found":
        return compiling.unpack(fds[0], payload["bytes"])
    if kind == "left":
        return compiling.pack(fds[0], payload["capacity"], payload["choices"])
    try:
        if kind == "determinism":
            return it.determinism(payload, fds[0])
        if kind == "other_batch":
            return it.other_batch(payload, fds[0])
        if kind == "selections":
            return selections.find(it, tensors.read(payload["inputs"], fds[0], it.device), fds[1])
        if kind == "trace":
            return tracing.trace(it, tensors.read(payload["inputs"], fds[0], it.device), payload["seed"])
        if kind == "counts":
            return counting.count(it, tensors.read(payload["inputs"], fds[0], it.device))
        if kind == "profile":
            return profiling.profile(it.arm, payload, fds[0])
        if kind == "capture":
            return _capture(it, tensors.read(payload["inputs"], fds[0], it.device))
        if kind == "compiled":
            return compiled_facts()
    except Refused:
        raise
    except (Exception, SystemExit) as error:
        raise failure("crash_forward", "forward(...)", error) from error
    raise ValueError(f"a reference does not answer {kind!r}")


def _capture(it: Reference, inputs: list[Any]) -> dict[str, Any]:
    from .capture import capture  # imports the exporter, which the other jobs need not pay for

    graph, reason = capture(it.model, tuple(inputs), it.mode)
    return {"graph": graph, "reason": reason}


def compiled_facts() -> dict[str, Any]:
    """What the compiler did: graphs, breaks, and recompilations, out of its own counters."""
    from torch._dynamo.utils import counters

    return {
        "graphs": int(counters["stats"].get("unique_graphs", 0)),
        "breaks": int(sum(counters["graph_break"].values())),
        "reasons": [str(reason)[:200] for reason in list(counters["graph_break"])[:3]],
    }
