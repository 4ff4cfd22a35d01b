"""CUDA for attention: the template of attention_half.cuh with what makes scores of sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from agents.engineers.offline.emit.expressions import literal
from agents.engineers.offline.emit.host import Call
from agents.engineers.offline.emit.split_gemm import HEADERS, Functor, operand, shape_of
from agents.engineers.offline.emit.text import Lines, comment
from agents.engineers.offline.graph import View
from agents.engineers.offline.ir import ACCUMULATOR, Axis, Nest, Value
from agents.engineers.offline.operands import Side
from agents.engineers.offline.regions import Written
from agents.engineers.offline.tiling import FLAG_FLOATS, packed_floats

RESERVED = {"q", "k", "v", "out", "key", "query", "number", "sum", "row", "column", "lane", "sums", "workspace", "stream"}


@dataclass(frozen=True)
class Heads:
    """Queries and keys as rows × width, values as width × keys, for batch[0] × batch[1] heads. `strides` of the result, in
    elements: along both of the batch and along the queries; a head's numbers lie side by side."""

    queries: Side
    keys: Side
    values: Side
    batch: tuple[int, int]
    strides: tuple[int, int, int]


class Mask(NamedTuple):
    """A tensor with strides, in elements, along both of the batch, queries and keys; of bool (which keys count) or float32 (what is
    added to the scores)."""

    name: str
    of_bool: bool
    outer: int
    inner: int
    rows: int
    columns: int


@dataclass(frozen=True)
class Scores:
    """`struct Scores` of a kernel, the graph names that it reads, and their pointers as (C type, name)."""

    struct: str
    reads: tuple[str, ...]
    pointers: tuple[tuple[str, str], ...]


def masked_scores(view: View, *, scale: float, causal: bool, mask: Mask | None, inner: int) -> Scores:
    """A scale, and what PyTorch's own operation has for masks. A query that sees no key gets zeros. `inner`: of the batch."""
    out = Lines()
    factor = literal(Value("const", (), "float", number=scale))
    kind = "bool" if mask is not None and mask.of_bool else "float"
    pointers = (("const " + kind + "*", "mask"),) if mask is not None else ()
    with out.block("struct Scores {", "};"):
        out("static constexpr bool EMPTY_IS_ZERO = true;")
        if mask is not None:
            out(f"const {kind}* mask;")
        with out.block("struct Row {", "};"):
            if mask is not None:
                out(f"const {kind}* mask;  // of this query")
            out("int query;")
            with out.block("__device__ __forceinline__ float operator()(int key, float sum) const {"):
                score = f"sum * {factor}"
                if mask is not None:
                    at = "0" if mask.columns == 0 else "key" if mask.columns == 1 else f"long(key) * {mask.columns}"
                    score = f"mask[{at}] ? {score} : -INFINITY" if mask.of_bool else f"{score} + mask[{at}]"
                out(f"return key > query ? -INFINITY : {score};" if causal else f"return {score};")
        with out.block("__device__ __forceinline__ Row row(int number, int query) const {"):
            if mask is None:
                out("return {query};")
            else:
                parts = [(mask.outer, f"(number / {inner})"), (mask.inner, f"(number % {inner})"), (mask.rows, "query")]
                at = " + ".join(["mask", *(f"long({index}) * {stride}" for stride, index in parts if stride)])
                out(f"return {{{at}, query}};")
    return Scores(out.text(), (mask.name,) if mask is not None else (), pointers)


class _Chain(Functor):
    """What makes a score of a sum, as the nest says."""

    def scores(self, rows: int) -> Scores:
        """`rows`: queries of a head."""
        nest, out = self.nest, Lines()
        self.out = out
        pointers = [(kind, label) for tensor, kind, label in self.parameters() if tensor in self.reads]
        axes = [self.index[axis] for axis in nest.outer]
        with out.block("struct Scores {", "};"):
            out("static constexpr bool EMPTY_IS_ZERO = false;")
            for kind, label in pointers:
                out(f"{kind} {label};")
            with out.block("struct Row {", "};"):
                for kind, label in pointers:
                    out(f"{kind} {label};")
                for axis in axes:
                    out(f"long {axis};")
                with out.block("__device__ __forceinline__ float operator()(int key, float sum) const {"):
                    names: dict[Value, str] = {}
                    done: set[Axis] = {*nest.outer, nest.kept[0]}
                    out(f"[[maybe_unused]] const long {self.index[nest.kept[0]]} = key;")
                    self._emit_values([nest.stores[0].value], done, names)
                    out(f"return {names[nest.stores[0].value]};")
            with out.block("__device__ __forceinline__ Row row(int number, int query) const {"):
                out(f"const long row = long(number) * {rows} + query;")
                self._row_indices()
                out(f"return {{{', '.join([*(label for _, label in pointers), *axes])}}};")
        return Scores(out.text(), tuple(self.reads), tuple(pointers))

    def _emit_value(self, value: Value, names: dict[Value, str], done: set[Axis]) -> None:
        if value.op == "load" and value.tensor == ACCUMULATOR:
            names[value] = "sum"
            return
        super()._emit_value(value, names, done)


def scores_of_nest(view: View, nest: Nest, rows: int) -> Scores:
    """What a program does with the scores of `rows` queries a head, before their softmax."""
    return _Chain(nest, view, RESERVED).scores(rows)


def emit_attention(
    name: str, nodes: tuple[str, ...], heads: Heads, scores: Scores, causal: bool, about: str, says: str
) -> Written:
    """Pointers: q, k, v, what `Scores` reads, the result, the workspace, the stream."""
    tiles = heads.batch[0] * heads.batch[1] * -(-heads.queries.rows // 128)
    launch = f"Launch: {tiles} tiles of 128 queries, which walk along {heads.keys.rows} keys, 64 at once; attention_half.cuh says how."
    out = Lines()
    for line in comment(f"{about}\n{launch}"):
        out(line)
    out('#include "cudamath.cuh"\n#include "attention_half.cuh"\n')
    out("namespace {  // every kernel's functor has this name\n")
    out("// What the program does with the sum of a query and a key.")
    out(scores.struct)
    out("}  // namespace\n")
    declared = "".join(f"{kind} {label}, " for kind, label in scores.pointers)
    sides = (heads.queries, heads.keys, heads.values)
    head = f'extern "C" int {name}(const float* q, const float* k, const float* v, {declared}float* out, float* workspace, cudaStream_t stream) {{'
    with out.block(head):
        along = ", ".join(str(side.along_k).lower() for side in sides)
        given = ", ".join(operand(pointer, side) for pointer, side in zip("qkv", sides, strict=True))
        labels = ", ".join(label for _, label in scores.pointers)
        batch, result = "{{{}, {}}}".format(*heads.batch), "{{out, {}, {}, {}}}".format(*heads.strides)
        out(
            f"return half_split::attention::launch<{along}>({given}, {batch}, {heads.queries.depth}, {str(causal).lower()}, workspace,"
        )
        out(f"                                              Scores{{{labels}}}, half_split::Result{result}, stream);")
    floats = FLAG_FLOATS + sum(packed_floats(side, heads.batch) for side in sides)
    inputs = (*(side.name for side in sides), *scores.reads)
    call = Call(name, nodes, inputs, (nodes[-1],), says, (floats,))
    shape = shape_of(out.text(), name, (label for _, label in scores.pointers))
    return Written(out.text(), call, (*HEADERS["half"], "attention_half.cuh"), shape)
