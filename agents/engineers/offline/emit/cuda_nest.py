"""CUDA for any loop nest: which emitter writes it."""

from __future__ import annotations

from collections.abc import Callable

from agents.engineers.offline.emit.cuda_forms import Form, form_of
from agents.engineers.offline.emit.cuda_loops import CudaEmitter
from agents.engineers.offline.emit.cuda_shared import SharedRowEmitter
from agents.engineers.offline.emit.cuda_turned import TurnedEmitter
from agents.engineers.offline.emit.loops import Kernel
from agents.engineers.offline.ir import Nest

RESERVED = (
    "item",
    "lane",
    "stream",
    "reduce",
    "parts",
    "block",
    "turn",
    "end",
    "at",
    "row",
    "column",
    "first",
    "above",
    "THREADS",
)
EMITTERS: dict[Form, type[CudaEmitter]] = {"shared": SharedRowEmitter, "turned": TurnedEmitter}


def emit_cuda_nest(nest: Nest, name: str, why: str, types: Callable[[str], str], plain: bool = False) -> Kernel:
    """The whole source file of one nest. `types` gives the dtype of a graph name; `plain` names pointers by position."""
    emitter = EMITTERS.get(form_of(nest), CudaEmitter)
    return emitter(nest, name, types, RESERVED, plain).kernel(why)
