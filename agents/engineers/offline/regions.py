"""A region: some nodes of the graph that one kernel can do, and what that would be worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.engineers.offline.emit.host import Call
from agents.engineers.offline.graph import View

REPLAY = "replay"  # the kind of the region that is the whole program, started as one CUDA graph
LAYOUT = "layout"  # the kind of the region that is the whole program with its convolutions on channels-last tensors
WHOLE = (REPLAY, LAYOUT)  # kinds without a kernel


@dataclass(frozen=True)
class Written:
    """A region as text: the source file of its kernel and how the forward calls it. `headers` are files it includes."""

    source: str
    call: Call
    headers: tuple[str, ...] = ("fastmath.h",)
    shape: str = ""  # equal texts: the same kernel under other names, which is then written once


@dataclass
class Region:
    """`kind` groups regions into to-do items. Seconds: `eager_s` of the nodes as PyTorch runs them, `kernel_s` predicted."""

    kind: str
    nodes: tuple[str, ...]
    write: Callable[[View, str], Written]
    eager_s: float
    kernel_s: float
    says: str
    ops: tuple[str, ...] = ()
    way: str = ""  # of which way to write the program it is a part; see `opportunities.Way`

    @property
    def key(self) -> str:
        """Stable for one program: its way, kind and last node."""
        return f"{self.way}{self.kind}:{self.nodes[-1]}"

    @staticmethod
    def no_kernel(view: View, name: str) -> Written:
        """`write` of a region that is the whole program."""
        raise LookupError("this region has no kernel of its own")

    @property
    def gain_s(self) -> float:
        return self.eager_s - self.kernel_s
