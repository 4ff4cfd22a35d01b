"""CUDA for a product by split operands and what follows it: the templates of gemm_tf32.cuh and gemm_half.cuh with a functor."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from agents.engineers.offline.emit.epilogue import Epilogue, Product
from agents.engineers.offline.emit.text import Lines, comment
from agents.engineers.offline.ir import ACCUMULATOR, Axis, Store, Value
from agents.engineers.offline.operands import Operands, Side
from agents.engineers.offline.regions import Written
from agents.engineers.offline.tiling import Tiling, panels, sizes_of, workspace_floats

HEADERS = {
    "tf32": ("split.cuh", "cudamath.cuh", "gemm_tf32.cuh"),
    "half": ("split.cuh", "cudamath.cuh", "gemm_tf32.cuh", "pack_half.cuh", "wgmma.cuh", "gemm_half.cuh"),
}


class Functor(Epilogue):
    """`Finish`: what the program does with neighbouring sums of one row, on the device."""

    def struct(self) -> str:
        """The C++ text."""
        nest, out = self.nest, Lines()
        self.out = out
        paired = [s for s in nest.stores if self._paired(s)]
        out("// What the program does with W neighbouring sums of a row.")
        with out.block("struct Finish {", "};"):
            for _, kind, label in self.parameters():
                out(f"{kind} {label};")
            out()
            head = "template <int W> __device__ __forceinline__ void operator()(long row, long column, const float (&sums)[W]) const {"
            with out.block(head):
                self._row_indices()
                names: dict[Value, str] = {}
                done: set[Axis] = set(nest.outer)
                wanted = [s.value for s in nest.stores]
                self._emit_values(wanted, done, names)
                axis = nest.kept[0]
                pairs = {id(s): self.names.fresh("pair") for s in paired}
                for label in pairs.values():
                    out(f"float {label}[W];")
                out("#pragma unroll")
                with out.block("for (int lane = 0; lane < W; ++lane) {"):
                    out(f"[[maybe_unused]] const long {self.index[axis]} = column + lane;")
                    self._emit_values(wanted, done | {axis}, names)
                    self._write([s for s in nest.stores if s not in paired], names)
                    for store in paired:
                        out(f"{pairs[id(store)]}[lane] = {names[store.value]};")
                if paired:
                    out(f"const long {self.index[axis]} = column;")
                for store in paired:
                    out(f"tf32::put({self.targets[id(store)]} + {self._address(store)}, {pairs[id(store)]});")
        return out.text()

    def _paired(self, store: Store) -> bool:
        """Whether two neighbours of a row lie in one aligned pair of words of the output."""
        axis = self.nest.kept[0]
        return (
            store.value.kind == "float"
            and store.stride_of(axis) == 1
            and axis.size % 2 == 0
            and all(store.stride_of(outer) % 2 == 0 for outer in self.nest.outer)
        )

    def _emit_value(self, value: Value, names: dict[Value, str], done: set[Axis]) -> None:
        if value.op == "load" and value.tensor == ACCUMULATOR:
            names[value] = "sums[lane]"
            return
        super()._emit_value(value, names, done)


def emit_split_product(product: Product, operands: Operands, tiling: Tiling, terms: str) -> Written:
    """The products and their epilogue. Pointers: x, w, what `Finish` reads, outputs, the workspace (half), the stream."""
    half = terms == "half"
    m, n, k = sizes_of(operands)
    columns, parts = (tiling.columns, tiling.parts) if half else (128, 1)
    tiles = operands.matrices * panels(m, 128) * panels(n, columns)
    launch = f"Launch: {tiles} tiles of 128 × {columns}"
    launch += f", each by {parts} blocks that share its sums" if parts > 1 else ""
    launch += f"; {HEADERS[terms][-1]} says how a tile is made, and why its sums are as accurate as float32's."
    out = Lines()
    for line in comment(f"{product.about}\n{launch}"):
        out(line)
    out(f'#include "cudamath.cuh"\n#include "{HEADERS[terms][-1]}"\n')
    tail = Functor(product.nest, product.view, {"x", "w", "row", "column", "lane", "sums", "workspace", "stream", "W"})
    out("namespace {  // every kernel's functor has this name\n")
    out(tail.struct())
    out("}  // namespace\n")
    space = "float* workspace, " if half else ""
    with out.block(
        f'extern "C" int {product.name}(const float* x, const float* w, {tail.declared}, {space}cudaStream_t stream) {{'
    ):
        labels = ", ".join(label for _, _, label in tail.parameters())
        sides = (operands.left, operands.right)
        along = ", ".join(str(side.along_k).lower() for side in sides)
        outer, inner = operands.batch
        given = f"{operand('x', sides[0])}, {operand('w', sides[1])}, {{{outer}, {inner}}}, {k}"
        call = f"half_split::launch<{along}, {columns}, {parts}>" if half else f"tf32::launch<{along}>"
        out(f"return {call}({given}, {'workspace' if half else 'nullptr'}, Finish{{{labels}}}, stream);")
    scratch = (workspace_floats(operands, tiling),) if half else ()
    written = product.end(out, tail, HEADERS[terms], scratch)
    return replace(written, shape=shape_of(written.source, product.name, (label for _, _, label in tail.parameters())))


def shape_of(source: str, name: str, labels: Iterable[str]) -> str:
    """A kernel without its comments, its name and those of its pointers: layers that differ in nothing else share one kernel."""
    text = re.sub(r"^\s*//.*\n", "", source, flags=re.MULTILINE)
    text = re.sub(rf"\b{name}\(", "kernel(", text)
    for place, label in enumerate(labels):
        text = re.sub(rf"\b{label}(_at\d*)?\b", rf"pointer{place}\1", text)
    return text


def operand(pointer: str, side: Side) -> str:
    strides = f", {side.outer}, {side.inner}" if side.outer or side.inner else ""
    return f"tf32::Operand{{{pointer}, {side.rows}, {side.lead}{strides}}}"
