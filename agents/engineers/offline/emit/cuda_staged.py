"""CUDA for few sums over many numbers and what is made with them, such as a BatchNorm: several kernels, one after the other.

For each level of reductions, blocks leave parts and a small kernel joins them and computes what depends on sums alone: means,
scales, running statistics. What is then left is pointwise, and written as such, between whatever layouts.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.engineers.offline.emit.cuda_forms import settle
from agents.engineers.offline.emit.cuda_loops import CudaEmitter, Launch
from agents.engineers.offline.emit.cuda_sums import SumsEmitter
from agents.engineers.offline.emit.cuda_turned import TurnedEmitter
from agents.engineers.offline.emit.cuda_vectors import WIDTHS, VectorEmitter, width_of
from agents.engineers.offline.emit.stages import CELL, stages_of
from agents.engineers.offline.ir import Nest


class StagedEmitter(CudaEmitter):
    def launch(self) -> Launch:
        self.stages = stages_of(self.nest)
        self.sums = SumsEmitter(self.stages.sums, self.name, self.types, self.names.taken)
        self.sums.known = self.stages.known
        self.lend_pointers(self.sums, self.stages.sums)
        return self.sums.launch()

    def scratch(self, launch: Launch) -> list[tuple[str, str, int]]:
        return self.sums.scratch(launch)

    def says(self, launch: Launch) -> str:
        return f"{self.sums.says(launch)}{'; the last kernel is pointwise' if self.stages.rest else ''}."

    def kernels(self, launch: Launch, pointers: Sequence[tuple[str, str]]) -> None:
        self.sums.kernels(launch, pointers)
        if self.stages.rest is not None:
            rest = self.pointwise(self.stages.rest)
            rest.kernels(rest.launch(), pointers)

    def pointwise(self, nest: Nest) -> CudaEmitter:
        """The emitter of the rest. What the sums came to is read from the cells."""
        form = settle(nest)
        emitter = TurnedEmitter if form == "turned" else VectorEmitter if width_of(nest, form) > 1 else CudaEmitter
        rest = emitter(nest, f"{self.name}_points", self.types, self.names.taken)
        rest.form, rest.along, rest.aligned_cells = form, set(), self.sums.cells % WIDTHS[0] == 0
        self.lend_pointers(rest, nest)
        for tensor in nest.loads:
            if tensor.startswith(CELL):
                rest.pointers[tensor] = rest.names.fresh("known")
                at = int(tensor.removeprefix(CELL)) * self.sums.cells
                rest.preamble.append(f"const float* __restrict__ {rest.pointers[tensor]} = cells + {at};")
        return rest

    def lend_pointers(self, other: CudaEmitter, nest: Nest) -> None:
        """Makes another emitter write into the same source, with the same names for what it reads and writes."""
        other.out, other.started = self.out, self.started
        other.pointers = {t: self.pointers[t] for t in nest.loads if t in self.pointers}
        targets = {s.name: self.targets[id(s)] for s in self.nest.stores}
        other.targets = {id(s): targets[s.name] for s in nest.stores}
