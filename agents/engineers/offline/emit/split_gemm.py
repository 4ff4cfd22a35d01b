"""CUDA for a product by split operands and what follows it: the templates of gemm_tf32.cuh and gemm_half.cuh with a functor."""

from __future__ import annotations

from typing import NamedTuple

from agents.engineers.offline.emit.epilogue import ACCUMULATOR, Epilogue, Product
from agents.engineers.offline.emit.text import Lines, comment
from agents.engineers.offline.ir import Axis, Value
from agents.engineers.offline.regions import Written

FLAG_FLOATS, PANEL_ROWS, PANEL_K, PANEL_FLOATS = (
    32,
    128,
    64,
    128 * 64,
)  # of gemm_half.cuh: two planes of 16-bit terms fill a float


class Sizes(NamedTuple):
    """A result of m × n, sums of k."""

    m: int
    n: int
    k: int


class Side(NamedTuple):
    """An operand as `rows` × `depth`; contiguous along its depth or along its rows; `lead` is the other dimension's stride."""

    name: str
    rows: int
    depth: int
    along_k: bool
    lead: int

    def text(self, pointer: str) -> str:
        return f"tf32::Operand{{{pointer}, {self.rows}, {self.lead}}}"


def workspace_floats(side: Side) -> int:
    """As half_split::workspace_floats: panels of both terms, and what undoes the scale of each row."""
    rows = -(-side.rows // PANEL_ROWS)
    return rows * -(-side.depth // PANEL_K) * PANEL_FLOATS + rows * PANEL_ROWS


class Functor(Epilogue):
    """`Finish`: what the program does with neighbouring sums of one row, on the device."""

    def struct(self) -> str:
        """The C++ text."""
        nest, out = self.nest, Lines()
        self.out = out
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
                out("#pragma unroll")
                with out.block("for (int lane = 0; lane < W; ++lane) {"):
                    out(f"const long {self.index[axis]} = column + lane;")
                    self._emit_values(wanted, done | {axis}, names)
                    self._write(nest.stores, names)
        return out.text()

    def _emit_value(self, value: Value, names: dict[Value, str], done: set[Axis]) -> None:
        if value.op == "load" and value.tensor == ACCUMULATOR:
            names[value] = "sums[lane]"
            return
        super()._emit_value(value, names, done)


def emit_split_product(product: Product, sides: tuple[Side, Side], sizes: Sizes, terms: str) -> Written:
    """x[M,K] w[N,K]ᵀ and its epilogue. Pointers: x, w, what `Finish` reads, outputs, the workspace (half), the stream."""
    half = terms == "half"
    header = "gemm_half.cuh" if half else "gemm_tf32.cuh"
    tiles = -(-sizes.m // 128) * -(-sizes.n // 128)
    launch = (
        f"Launch: {tiles} tiles of 128 × 128; {header} says how a tile is made, and why its sums are as accurate as float32's."
    )
    out = Lines()
    for line in comment(f"{product.about}\n{launch}"):
        out(line)
    out(f'#include "cudamath.cuh"\n#include "{header}"\n')
    tail = Functor(product.nest, product.view, {"x", "w", "row", "column", "lane", "sums", "workspace", "stream", "W"})
    out("namespace {  // every kernel's functor has this name\n")
    out(tail.struct())
    out("}  // namespace\n")
    space = "float* workspace, " if half else ""
    with out.block(
        f'extern "C" int {product.name}(const float* x, const float* w, {tail.declared}, {space}cudaStream_t stream) {{'
    ):
        a, b = (str(side.along_k).lower() for side in sides)
        labels = ", ".join(label for _, _, label in tail.parameters())
        operands = f"{sides[0].text('x')}, {sides[1].text('w')}, {sizes.k}"
        call = f"half_split::launch<{a}, {b}>" if half else f"tf32::launch<{a}, {b}>"
        out(f"return {call}({operands}, {'workspace' if half else 'nullptr'}, Finish{{{labels}}}, stream);")
    scratch = (FLAG_FLOATS + sum(workspace_floats(side) for side in sides),) if half else ()
    headers = ("split.cuh", "cudamath.cuh", "gemm_tf32.cuh", *(("gemm_half.cuh",) if half else ()))
    return product.end(out, tail, headers, scratch)
