"""Depthwise convolutions on a GPU: few multiplications for each number, so reading and writing each once is what counts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial

from agents.engineers.offline.builder import argument
from agents.engineers.offline.costs import Ceilings, convolution_s, eager_pointwise_s, tensor_bytes
from agents.engineers.offline.emit.calls import is_alias
from agents.engineers.offline.emit.epilogue import Product
from agents.engineers.offline.emit.split_gemm import Functor, shape_of
from agents.engineers.offline.emit.text import Lines, comment
from agents.engineers.offline.graph import View, is_contiguous, is_dense, ref, short
from agents.engineers.offline.ir import ACCUMULATOR, Store
from agents.engineers.offline.nests import make_nest
from agents.engineers.offline.products import Seed, comment_of, epilogue_of, seed_product, work_of
from agents.engineers.offline.regions import Region, Written
from gpu_runner.contracts import GraphNode

LARGEST_WINDOW = 64  # numbers of a filter, which lie in registers
ROWS = 8  # results of one thread, one below the other
REACHED = 0.6  # of the bandwidth by small filters, as expected: neighbours' windows are read from cache again
MULTIPLIED = 0.22  # of the float32 rate, as filters of 5 × 5 numbers do
WORTHWHILE = 0.9  # of eager's time


@dataclass(frozen=True)
class Form:
    """What `depthwise.cuh` asks for, under the same names."""

    images: int
    channels: int
    multiplier: int
    height: int
    width: int
    out_height: int
    out_width: int
    kernel_y: int
    kernel_x: int
    stride_y: int
    stride_x: int
    dilation_y: int
    dilation_x: int
    padding_y: int
    padding_x: int
    rows: int
    channels_last: int
    from_image: int
    from_channel: int
    from_row: int
    from_column: int

    @property
    def threads(self) -> int:
        return self.images * self.channels * -(-self.out_height // self.rows) * self.out_width

    @property
    def lies(self) -> tuple[int, int]:
        """Rows and columns of the result as it lies in memory."""
        pixels = self.out_height * self.out_width
        return (self.images * pixels, self.channels) if self.channels_last else (self.images * self.channels, pixels)


class OneByOne(Functor):
    """`Finish` for sums that come one at a time."""

    def _paired(self, store: Store) -> bool:
        return False


def find_depthwise(view: View, ceilings: Ceilings, taken: set[str]) -> list[Region]:
    """One region per float32 convolution of one or two dimensions in which every result is of one channel."""
    regions: list[Region] = []
    claimed = set(taken)
    for node in view.graph.nodes:
        if node.name in claimed or short(node.target) not in ("conv1d", "conv2d") or (form := form_of(view, node)) is None:
            continue
        region = _region(view, node, form, ceilings, claimed)
        if region is not None:
            regions.append(region)
            claimed |= set(region.nodes)
    return regions


def _region(view: View, node: GraphNode, form: Form, ceilings: Ceilings, taken: set[str]) -> Region | None:
    seed = seed_product(node, None, -1)
    group = epilogue_of(view, node, seed, *form.lies, taken, in_place=False)
    if not group:
        return None
    nest = make_nest(view, group, seed, form.lies[1])
    if any(store.stride_of(nest.kept[0]) != 1 for store in nest.stores):  # results of another layout
        group = [node.name]
        nest = make_nest(view, group, seed, form.lies[1])
    tensors = {*view.operands(node), *nest.loads, *(s.name for s in nest.stores)} - {ACCUMULATOR}
    work = 2.0 * view.tensor(node.name).numel * form.kernel_y * form.kernel_x
    moved = sum(tensor_bytes(view, name) for name in tensors) / (REACHED * ceilings.bandwidth)
    ours = ceilings.kernel_s + max(moved, work / (MULTIPLIED * ceilings.flops))
    after = [view.nodes[name] for name in group[1:] if not is_alias(view.nodes[name])]
    eager = convolution_s(view, node, ceilings) + sum(eager_pointwise_s(view, other, ceilings) for other in after)
    if ours > WORTHWHILE * eager:
        return None
    ops = work_of(view, group)
    says = f"depthwise {form.kernel_y} × {form.kernel_x} convolution of {form.channels} channels"
    says += f", then {', '.join(dict.fromkeys(ops))}" if ops else ""
    write = partial(_write, group=tuple(group), seed=seed, form=form, says=says)
    return Region("depthwise", tuple(group), write, eager, ours, says, (short(node.target), *ops))


def form_of(view: View, node: GraphNode) -> Form | None:
    """None where it is not depthwise, or of a form that the kernel does not have."""
    names = [ref(argument(node, k, "")) for k in (0, 1)]
    x, w, y = (view.spec(name) if name is not None else None for name in (*names, node.name))
    if x is None or w is None or y is None or ref(argument(node, 2, "bias")) is not None:
        return None
    rank = len(x.shape) - 2
    given = [_each(argument(node, k, "", usual), rank) for k, usual in ((3, 1), (4, 0), (5, 1))]
    if any(s.dtype != "float32" or not is_dense(s) for s in (x, w, y)) or not is_contiguous(w) or None in given:
        return None
    if rank != int(short(node.target)[-2]) or argument(node, 6, "", 1) != x.shape[1] or w.shape[1] != 1 or x.shape[1] == 1:
        return None
    stride, padding, dilation = (values for values in given if values is not None)
    kernel = _planar(w.shape[2:], 1)
    if kernel[0] * kernel[1] > LARGEST_WINDOW or y.numel == 0:
        return None
    (height, width), (out_height, out_width) = _planar(x.shape[2:], 1), _planar(y.shape[2:], 1)
    strips = -(-out_height // ROWS)
    form = Form(
        x.shape[0], y.shape[1], y.shape[1] // x.shape[1], height, width, out_height, out_width, *kernel, *_planar(stride, 1),
        *_planar(dilation, 1), *_planar(padding, 0), -(-out_height // strips), int(y.stride[1] == 1 < y.shape[1]),
        x.stride[0], x.stride[1], *_planar(x.stride[2:], 0),
    )  # fmt: skip
    return form if max(x.numel, y.numel, form.threads) < 2**31 else None


def _each(value: object, rank: int) -> list[int] | None:
    if isinstance(value, int):
        return [value] * rank
    if isinstance(value, list) and all(isinstance(v, int) for v in value):
        return value * rank if len(value) == 1 else value
    return None


def _planar(sizes: list[int] | tuple[int, ...], usual: int) -> tuple[int, int]:
    """Of one dimension: as a plane of one row."""
    return (sizes[-2], sizes[-1]) if len(sizes) > 1 else (usual, sizes[-1])


def _write(view: View, name: str, *, group: tuple[str, ...], seed: Seed, form: Form, says: str) -> Written:
    source, weight = view.operands(view.nodes[group[0]])[:2]
    nest = make_nest(view, group, seed, form.lies[1])
    product = Product(view, name, nest, group, source, weight, comment_of(view, group, says), says)
    blocks, along = -(-form.threads // 256), "channels" if form.channels_last else "columns"
    out = Lines()
    launch = f"Launch: {blocks} blocks; a thread for {form.rows} results, neighbours on neighbouring {along}."
    for text in comment(f"{product.about}\n{launch}"):
        out(text)
    out('#include "cudamath.cuh"\n#include "depthwise.cuh"\n')
    tail = OneByOne(nest, view, {"x", "w", "row", "column", "lane", "sums", "stream", "W"})
    out("namespace {  // every kernel's sizes and functor have these names\n")
    with out.block("struct Form {", "};"):
        for field, value in asdict(form).items():
            out(f"static constexpr int {field} = {value};")
    out()
    out(tail.struct())
    out("}  // namespace\n")
    labels = [label for _, _, label in tail.parameters()]
    with out.block(f'extern "C" int {name}(const float* x, const float* w, {tail.declared}, cudaStream_t stream) {{'):
        out(f"const Finish finish{{{', '.join(labels)}}};")
        out(f"depthwise::kernel<Form, Finish><<<{blocks}, 256, 0, stream>>>(x, w, finish);")
        out("return int(cudaPeekAtLastError());")
    written = product.end(out, tail, ("cudamath.cuh", "depthwise.cuh"))
    return replace(written, shape=shape_of(written.source, name, labels))
