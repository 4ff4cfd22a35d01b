"""CUDA for any loop nest: which emitter writes it."""

from __future__ import annotations

from collections.abc import Callable

from agents.engineers.offline.emit.cuda_forms import Form, settle
from agents.engineers.offline.emit.cuda_loops import CudaEmitter
from agents.engineers.offline.emit.cuda_staged import StagedEmitter
from agents.engineers.offline.emit.cuda_turned import TurnedEmitter
from agents.engineers.offline.emit.cuda_vectors import VectorEmitter, width_of
from agents.engineers.offline.emit.loops import Kernel
from agents.engineers.offline.ir import Nest

# Names of the emitters' own.
RESERVED = frozenset(
    "item lane stream reduce parts cells cell block turn turns begin end at row column first above half other works THREADS W TURNS vectors".split()
)
EMITTERS: dict[Form, type[CudaEmitter]] = {"staged": StagedEmitter, "turned": TurnedEmitter}


def emit_cuda_nest(nest: Nest, name: str, why: str, types: Callable[[str], str], plain: bool = False) -> Kernel:
    """The whole source file of one nest. `types` gives the dtype of a graph name; `plain` names pointers by position."""
    form = settle(nest)
    emitter = EMITTERS.get(form, VectorEmitter if width_of(nest, form) > 1 else CudaEmitter)
    return emitter(nest, name, types, RESERVED, plain).kernel(why)
