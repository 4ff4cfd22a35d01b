"""What follows a matrix product or convolution, as a function over one block of its result while that is in cache."""

from __future__ import annotations

import math
from dataclasses import dataclass

from agents.engineers.offline.emit.host import Call
from agents.engineers.offline.emit.text import Lines, comment
from agents.engineers.offline.emit.values import ValueWriter, c_type
from agents.engineers.offline.graph import View
from agents.engineers.offline.ir import ACCUMULATOR, Axis, Nest, Store, Value
from agents.engineers.offline.regions import Written


@dataclass(frozen=True)
class Product:
    """A product or convolution to write: `nodes` of the graph, the first of them `source` times `weight`, and the rest's `nest`."""

    view: View
    name: str
    nest: Nest
    nodes: tuple[str, ...]
    source: str
    weight: str
    about: str
    says: str

    def begin(self, launch: str, reserved: set[str], *headers: str) -> tuple[Lines, Epilogue]:
        """The file up to `finish`: the comment that ends with how it is launched, includes, and the epilogue."""
        out = Lines()
        for line in comment(f"{self.about}\n{launch}"):
            out(line)
        out("\n".join(f"#include {header}" for header in headers) + "\n")
        tail = Epilogue(self.nest, self.view, {"x", "w", *reserved})
        out(tail.function())
        return out, tail

    def end(self, out: Lines, tail: Epilogue, headers: tuple[str, ...], scratch: tuple[int, ...] = ()) -> Written:
        """The finished file, for a kernel whose pointers are x, w, what `finish` reads and writes, and `scratch`."""
        call = Call(self.name, self.nodes, (self.source, self.weight, *tail.reads), tail.writes, self.says, scratch)
        return Written(out.text(), call, headers)


class Epilogue(ValueWriter):
    """`finish(row0, row1, col0, col1, pointers…)`. Rows are the product of the nest's outer axes, columns its one kept axis."""

    def __init__(self, nest: Nest, view: View, reserved: set[str]) -> None:
        super().__init__(
            nest, "finish", lambda name: view.tensor(name).dtype, reserved | {"row", "row0", "row1", "col0", "col1"}
        )
        self.sums = next((s for s in nest.stores if is_full(nest, s)), nest.stores[0])
        self.reads = [t for t in nest.loads if t != ACCUMULATOR]

    @property
    def accumulator(self) -> str:
        """The pointer that the product writes its sums to: the output that `finish` overwrites in place."""
        return self.targets[id(self.sums)]

    @property
    def writes(self) -> tuple[str, ...]:
        """The graph names of the outputs."""
        return tuple(s.name for s in self.nest.stores)

    @property
    def declared(self) -> str:
        """What `finish` reads and writes, as the parameters of the kernel that calls it."""
        return ", ".join(f"{kind} {label}" for _, kind, label in self.parameters())

    def call(self, row0: str, row1: str, col0: str, col1: str) -> str:
        """The statement that finishes a block."""
        return f"finish({', '.join([row0, row1, col0, col1, *(label for _, _, label in self.parameters())])});"

    def function_object(self) -> str:
        """`finish` with its pointers bound, for a kernel that is a template of a header."""
        return f"[=](long row0, long row1, long col0, long col1) {{ {self.call('row0', 'row1', 'col0', 'col1')} }}"

    def parameters(self) -> list[tuple[str, str, str]]:
        """Graph name, C type, C name of every pointer that `finish` takes; inputs, then outputs."""
        rows = [(t, f"const {c_type(self.types(t))}*", self.pointers[t]) for t in self.reads]
        rows += [(s.name, f"{c_type(self.types(s.name))}*", self.targets[id(s)]) for s in self.nest.stores]
        return rows

    def function(self) -> str:
        """The C++ text."""
        nest = self.nest
        out = self.out = Lines()
        self.pointers[ACCUMULATOR] = self.accumulator
        out("// What the program does with the sums, on rows [row0, row1) and columns [col0, col1) of the result.")
        head = f"static inline void finish(long row0, long row1, long col0, long col1, {self.declared}) {{"
        with out.block(head), out.block("for (long row = row0; row < row1; ++row) {"):
            self._row_indices()
            names: dict[Value, str] = {}
            done: set[Axis] = set(nest.outer)
            wanted = [s.value for s in nest.stores]
            self._emit_values(wanted, done, names)
            column = nest.kept[0]
            i = self.index[column]
            out("#pragma omp simd")
            with out.block(f"for (long {i} = col0; {i} < col1; ++{i}) {{"):
                self._emit_values(wanted, done | {column}, names)
                self._write(nest.stores, names)
        return out.text()

    def _row_indices(self) -> None:
        axes = self.nest.outer
        for k, axis in enumerate(axes):
            inner = math.prod(a.size for a in axes[k + 1 :])
            text = "row" if inner == 1 else f"row / {inner}"
            if k > 0:
                text = f"({text}) % {axis.size}" if inner > 1 else f"row % {axis.size}"
            self.out(f"const long {self.index[axis]} = {text};")


def is_full(nest: Nest, store: Store) -> bool:
    """Whether an output is as large as the product and row-major, so that it can hold the sums."""
    axes = [*nest.outer, *nest.kept]
    step = 1
    for axis in reversed(axes):
        if store.stride_of(axis) != step:
            return False
        step *= axis.size
    return store.value.kind == "float"
