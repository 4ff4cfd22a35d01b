"""CUDA for a loop nest: a thread for each point, a warp or a block for each row, or a thread for each column of a row's sums.

A reduction must be complete before what depends on it starts, so values have levels and each level is one pass over the row. What
a later pass needs again stays in registers where a thread's share of the row is short (`held`), else it is found in cache. Sums
are made in float64: on a constant row a mean that is off by one rounding would be magnified by a normalisation. What becomes one
number out of everything leaves each block as a part, and a last block of a second kernel joins the parts, always in the same order.
"""

from __future__ import annotations

import itertools
import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from agents.engineers.offline.emit.cuda_forms import WINDOW, Form, settle, tensors_of
from agents.engineers.offline.emit.held import held_values
from agents.engineers.offline.emit.loops import Kernel
from agents.engineers.offline.emit.text import comment
from agents.engineers.offline.emit.values import ValueWriter, c_type
from agents.engineers.offline.ir import Axis, Nest, Store, Value

THREADS = 256
UNROLL = 4  # points of one thread in flight
SHARE = 16  # numbers of a row for each thread of a block, unless the row is too long for that
MOST_PARTS = 1024  # blocks that leave a part of one number
BOUND = 1e37  # of what a division by can be a multiplication with, in float32's normal range
LARGEST = 2**31 - 1  # elements up to which 32-bit indices do
OPERATIONS = {"sum": "Sum", "squares": "Sum", "top": "Top", "max": "Max", "min": "Min"}
SUMS = ("sum", "squares")  # made in float64
START = {
    "sum": "0.0",
    "squares": "0.0",
    "top": "-std::numeric_limits<float>::infinity()",
    "max": "-std::numeric_limits<float>::infinity()",
    "min": "std::numeric_limits<float>::infinity()",
}


@dataclass(frozen=True)
class Launch:
    """`items` of work, `each` of them in a block of `threads`; with at most `most` blocks a block goes on to further ones."""

    items: int
    each: int
    threads: int
    most: int = LARGEST

    @property
    def blocks(self) -> int:
        return min(self.most, -(-self.items // self.each))


@dataclass(frozen=True)
class Started:
    """A kernel with its launch. `wide`: a template over how many neighbours it takes at once, and the pointers which must allow
    that many."""

    name: str
    blocks: int
    threads: int
    arguments: tuple[str, ...]
    wide: int = 1
    watched: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        rest = f"<<<{self.blocks}, {self.threads}, 0, stream>>>({', '.join(self.arguments)});"
        if self.wide == 1:
            return [self.name + rest]
        test = f"if (vectors::aligned<{self.wide}>({', '.join(self.watched)}))"
        return [test, f"    {self.name}<{self.wide}>{rest}", "else", f"    {self.name}<1>{rest}"]


def _without_unused(lines: list[str]) -> list[str]:
    """A kernel's body without indices that nothing uses from there to the end of their block."""
    for k in range(len(lines) - 1, -1, -1):
        index = re.fullmatch(r"( *)const (?:int|long) (\w+) = [^,;]*;", lines[k])
        if index is None:
            continue
        end = next((j for j in range(k + 1, len(lines)) if lines[j] and not lines[j].startswith(index[1])), len(lines))
        if not re.search(rf"\b{index[2]}\b", "\n".join(lines[k + 1 : end])):
            del lines[k]
    return lines


def inverse(value: Value) -> str | None:
    """What to multiply with instead of dividing by a plain number, as eager does on a GPU; None of other divisions, and of a mean."""
    divided, by = value.args
    if by.op != "const" or by.kind != "float" or divided.op == "reduce":
        return None
    rounded = struct.unpack("f", struct.pack("f", by.number))[0] if abs(by.number) < BOUND else 0.0
    return f"({1.0 / rounded!r}f)" if abs(rounded) > 1.0 / BOUND else None


class CudaEmitter(ValueWriter):
    form: Form
    together = 1  # neighbours that a thread takes at once
    aligned_cells = False  # whether what sums came to, in the workspace, may be read so

    def __init__(
        self, nest: Nest, name: str, types: Callable[[str], str], reserved: Iterable[str] = (), plain: bool = False
    ) -> None:
        super().__init__(nest, name, types, reserved, plain)
        self.along = set(nest.reduced)
        self.started: list[Started] = []
        self.preamble: list[str] = []  # lines at the beginning of every kernel
        self.wide: dict[Value, str] = {}  # sums as they were made, in float64
        self.held_at = ""  # which number of its share a thread is at
        self.held: dict[Value, str] = {}  # what a thread keeps of its row between passes, by the array's name
        self.kept_already: set[Value] = set()  # of those, the ones that a pass has filled

    def kernel(self, why: str) -> Kernel:
        nest, out = self.nest, self.out
        self.form = settle(nest)
        launch = self.launch()
        for line in comment(f"{why}\n{self.says(launch)}"):
            out(line)
        out('#include "cudamath.cuh"\n#include "reduce.cuh"\n#include "vectors.cuh"\n')
        pointers = [(f"const {c_type(self.types(t))}* __restrict__", self.pointers[t]) for t in nest.loads]
        pointers += [(f"{c_type(self.types(s.name))}* __restrict__", self.targets[id(s)]) for s in nest.stores]
        scratch = self.scratch(launch)
        self.kernels(launch, [*pointers, *((f"{kind}* __restrict__", label) for kind, label, _ in scratch)])
        pointers += [(f"{scratch[0][0]}* __restrict__", scratch[0][1])] if scratch else []
        with out.block(f'extern "C" int {self.name}({", ".join(f"{k} {n}" for k, n in pointers)}, cudaStream_t stream) {{'):
            for (_, before, count), (kind, label, _) in itertools.pairwise(scratch):
                out(f"{kind}* {label} = reinterpret_cast<{kind}*>({before} + {count});")
            for line in [line for one in self.started for line in one.lines()]:
                out(line)
            out("return int(cudaPeekAtLastError());")
        floats = sum(count * (2 if kind == "double" else 1) for kind, _, count in scratch)
        return Kernel(self.name, out.text(), tuple(nest.loads), tuple(s.name for s in nest.stores), (floats,) if floats else ())

    @contextmanager
    def function(
        self, name: str, blocks: int, threads: int, pointers: Sequence[tuple[str, str]], wide: int = 1
    ) -> Iterator[None]:
        """A kernel around what is written inside, with those of `pointers` (type and label) that it uses; `wide` as `Started`'s."""
        first = len(self.out.lines)
        self.out.depth += 1
        for line in self.preamble:
            self.out(line)
        yield
        self.out.depth -= 1
        self.out.lines[first:] = _without_unused(self.out.lines[first:])
        words = set(re.findall(r"(?<![\w.])\w+", "\n".join(self.out.lines[first:])))
        used = [(kind, label) for kind, label in pointers if label in words]
        declared = ", ".join(f"{kind} {label}" for kind, label in used)
        head = f"static __global__ void __launch_bounds__({threads}) {name}({declared}) {{"
        self.out.lines.insert(first, head if wide == 1 else f"template <int W>\n{head}")
        self.out("}\n")
        watched = self.watched if wide > 1 else ()
        self.started.append(Started(name, blocks, threads, tuple(label for _, label in used), wide, watched))

    @property
    def watched(self) -> tuple[str, ...]:
        """Pointers that must be multiples of the width."""
        return ()

    def scratch(self, launch: Launch) -> list[tuple[str, str, int]]:
        """Type, name and length of what lies in the workspace: here what the blocks leave for the joining kernel."""
        return [("double", "parts", len(self.tails) * launch.blocks)] if self.tails else []

    def kernels(self, launch: Launch, pointers: Sequence[tuple[str, str]]) -> None:
        """Writes them, in the order in which they are started."""
        with self.function(f"{self.name}_kernel", launch.blocks, launch.threads, pointers, self.together):
            self.body(launch)
        if self.tails:
            with self.function(f"{self.name}_join", 1, THREADS, pointers):
                self.join(launch)

    def launch(self) -> Launch:
        rows = math.prod(a.size for a in self.nest.outer)
        points = rows * math.prod(a.size for a in self.nest.kept)
        most = MOST_PARTS if self.tails else LARGEST
        if self.form == "points" and not self.tails:
            return Launch(points, THREADS * UNROLL, THREADS)
        if self.form in ("points", "columns"):
            return Launch(points, THREADS, THREADS, most)
        if self.form == "warps":
            return Launch(rows, THREADS // 32, THREADS, most)
        return Launch(rows, 1, self.row_threads, most)

    @property
    def row_threads(self) -> int:
        """Threads that share a row."""
        length = math.prod(a.size for a in self.nest.reduced)
        if self.form == "warps":
            return 32
        return next((threads for threads in (THREADS, 2 * THREADS) if length <= threads * SHARE), 4 * THREADS)

    @property
    def share(self) -> int:
        """Numbers of a row that a thread has to do with."""
        length = math.prod(a.size for a in self.nest.reduced)
        return length if self.form == "columns" else -(-length // self.row_threads)

    def says(self, launch: Launch) -> str:
        form = {
            "points": "a thread for each point, and further ones"
            if self.tails
            else f"a thread for {UNROLL} points, {THREADS} apart, so that their loads are in flight together",
            "columns": "a thread for each sum, neighbours on neighbouring columns; each walks along what is summed",
            "warps": "a warp for each row",
            "blocks": f"a block of {launch.threads} threads for each row",
        }[self.form]
        return f"Launch: {launch.blocks} blocks; {form}."

    @property
    def integer(self) -> str:
        """The type of indices: 32 bits as long as every tensor has fewer elements."""
        sizes = [self.nest.elements]
        for tensor in tensors_of(self.nest):
            sizes.append(1 + sum((a.size - 1) * tensor.stride_of(a) for dim in tensor.dims for a in dim))
        return "int" if max(sizes) <= LARGEST else "long"

    def body(self, launch: Launch) -> None:
        out, nest = self.out, self.nest
        kind, axes = self.integer, [*nest.outer, *nest.kept]
        if self.form == "points" and not self.tails:
            out("#pragma unroll")
            with out.block(f"for (int lane = 0; lane < {UNROLL}; ++lane) {{"):
                out(f"const {kind} item = blockIdx.x * {kind}({launch.each}) + lane * {launch.threads} + threadIdx.x;")
                out(f"if (item >= {launch.items}) continue;")
                self.decode("item", axes)
                self.passes(set(axes))
            return
        thread = {"blocks": "0", "warps": "threadIdx.x / 32"}.get(self.form, "threadIdx.x")
        first = f"blockIdx.x * {kind}({launch.each}) + {thread}"
        for value in self.tails:
            self.accumulators[value] = self.names.fresh("total")
            out(f"double {self.accumulators[value]} = {START[value.fn]};")
        step = launch.blocks * launch.each
        if self.form == "points":
            out("#pragma unroll 4")
        with out.block(f"for ({kind} item = {first}; item < {launch.items}; item += {step}) {{"):
            self.decode("item", axes)
            self.passes(set(axes))
        for k, value in enumerate(self.tails):
            self.leave(value, f"parts[{k * launch.blocks} + blockIdx.x]", launch.threads)

    def leave(self, value: Value, place: str, threads: int) -> None:
        """The block's part of a number, in memory for the second kernel."""
        part = self.names.fresh("of_block")
        operation = f"reduce::{OPERATIONS[value.fn]}"
        self.out(f"const double {part} = reduce::across<{operation}, {threads}>({self.accumulators[value]});")
        self.out(f"if (threadIdx.x == 0) {place} = {part};")

    def join(self, launch: Launch) -> None:
        """All parts into one number, and what depends on it."""
        out, names = self.out, dict[Value, str]()
        for k, value in enumerate(self.tails):
            part, self.wide[value] = self.names.fresh("part"), self.names.fresh("whole")
            operation = f"reduce::{OPERATIONS[value.fn]}"
            out(f"double {part} = {START[value.fn]};")
            with out.block(f"for (int block = threadIdx.x; block < {launch.blocks}; block += {THREADS}) {{"):
                out(f"{part} = {operation}::combine({part}, parts[{k * launch.blocks} + block]);")
            out(f"const double {self.wide[value]} = reduce::across<{operation}, {THREADS}>({part});")
            names[value] = f"float({self.wide[value]})"
        with out.block("if (threadIdx.x == 0) {"):
            for store in self.nest.stores:
                if store.value in self.tail_cone:
                    self._emit_values([store.value], set(), names)
                    out(f"{self.targets[id(store)]}[0] = {names[store.value]};")

    def decode(self, item: str, axes: list[Axis]) -> None:
        """Declares the index of every axis from a row-major position."""
        for k, axis in enumerate(axes):
            inner = math.prod(a.size for a in axes[k + 1 :])
            text = item if inner == 1 else f"{item} / {inner}"
            if k > 0:
                text = f"({text}) % {axis.size}" if inner > 1 else f"{item} % {axis.size}"
            self.out(f"const {self.integer} {self.index[axis]} = {text};")

    def passes(self, done: set[Axis]) -> None:
        nest = self.nest
        names: dict[Value, str] = {}
        reduces = [v for v in nest.values if v.op == "reduce" and v not in self.tails]
        apart = [s for s in nest.stores if s.value not in self.tail_cone]
        last = max([*(self.level[s.value] for s in apart), *(self.level[v.args[0]] for v in self.tails)])
        self.hold(last)
        for level in range(last + 1):
            stores = [s for s in apart if self.level[s.value] == level]
            tails = [v for v in self.tails if self.level[v.args[0]] == level]
            inside = [s for s in stores if any(a in self.along for dim in s.dims for a in dim)]
            within = [v for v in tails if v.args[0].axes & self.along]
            outside, whole = [s for s in stores if s not in inside], [v for v in tails if v not in within]
            if outside or whole:
                self._emit_values([*(s.value for s in outside), *(v.args[0] for v in whole)], done, names)
                self.by_leader(outside, whole, names)
            here = [v for v in reduces if self.level[v.args[0]] == level]
            if here or inside or within:
                self.one_pass(here, inside, within, done, names)

    def hold(self, last: int) -> None:
        """Declares an array of registers for each value of the row that more than one of the passes needs."""
        self.held, self.kept_already = {}, set()
        if self.form not in ("warps", "blocks", "columns"):
            return
        needs: list[list[Value]] = []
        for level in range(last + 1):
            roots = [v.args[0] for v in self.nest.values if v.op == "reduce" and self.level[v.args[0]] == level]
            roots += [s.value for s in self.nest.stores if s.value not in self.tail_cone and self.level[s.value] == level]
            needs.append([root for root in roots if root.axes & self.along])
        for value in held_values(self.nest.values, needs, self.along, self.share, self.row_threads):
            self.held[value] = self.names.fresh("row")
        if self.held:
            size = self.held_size()
            for label in self.held.values():
                self.out(f"float {label}[{size}];")

    def held_size(self) -> str:
        """Numbers of a row that a thread holds, as the kernel says it."""
        return str(self.share)

    def add(self, value: Value, part: str, names: dict[Value, str]) -> None:
        name = names[value.args[0]]
        if value.fn == "squares":
            self.out(f"{part} += double({name}) * {name};")
        else:
            self.out(f"{part} = reduce::{OPERATIONS[value.fn]}::combine({part}, {name});")

    def _emit_value(self, value: Value, names: dict[Value, str], done: set[Axis]) -> None:
        if value.fn == "div" and (factor := inverse(value)) is not None:
            name = names[value] = self.names.fresh("quot")
            self.out(f"const float {name} = {names[value.args[0]]} * {factor};")
            return
        if value.fn != "spread":
            super()._emit_value(value, names, done)
            return
        # The sum of squares about the mean: in float64 the difference keeps more digits than float32 numbers have.
        total, squares, count = *(self.wide[a] for a in value.args[:2]), value.args[2].number
        apart, names[value] = self.names.fresh("apart"), self.names.fresh("spread")
        self.out(f"const double {apart} = {squares} - {total} * {total} / {count};")
        self.out(f"const float {names[value]} = {apart} < 0.0 ? 0.0f : float({apart});")

    def by_leader(self, stores: list[Store], tails: list[Value], names: dict[Value, str]) -> None:
        def act() -> None:
            self._write(stores, names)
            for value in tails:
                self.add(value, self.accumulators[value], names)

        if self.form in ("points", "columns"):
            act()
            return
        with self.out.block(f"if (threadIdx.x % {self.row_threads} == 0) {{"):
            act()

    @contextmanager
    def along_row(self, names: dict[Value, str]) -> Iterator[dict[Value, str]]:
        """The loop over a thread's share of a row, unrolled as a whole where something of it is held: registers have no index."""
        out, length = self.out, math.prod(a.size for a in self.nest.reduced)
        first, step = ("0", 1) if self.form == "columns" else (f"threadIdx.x % {self.row_threads}", self.row_threads)
        at = self.names.fresh("at")
        scope = dict(names)
        if not self.held:
            out("#pragma unroll" if self.form == "columns" and length <= WINDOW else "#pragma unroll 4")
            with out.block(f"for ({self.integer} {at} = {first}; {at} < {length}; {at} += {step}) {{"):
                self.decode(at, self.nest.reduced)
                yield scope
            return
        self.held_at = self.names.fresh("turn")
        out("#pragma unroll")
        with out.block(f"for (int {self.held_at} = 0; {self.held_at} < {self.share}; ++{self.held_at}) {{"):
            start = "" if first == "0" else f"{first} + "
            out(f"const {self.integer} {at} = {start}{self.held_at}{'' if step == 1 else f' * {step}'};")
            if length % step:
                out(f"if ({at} >= {length}) continue;")
            self.decode(at, self.nest.reduced)
            yield scope

    def one_pass(
        self, reduces: list[Value], stores: list[Store], tails: list[Value], done: set[Axis], names: dict[Value, str]
    ) -> None:
        out = self.out
        parts = [self.begin_part(value) for value in reduces]
        roots = [*(v.args[0] for v in (*reduces, *tails)), *(s.value for s in stores)]
        self._emit_values(roots, done, names)  # what is the same all along the row
        with self.along_row(names) as scope:
            for value in self.kept_already:
                scope[value] = f"{self.held[value]}[{self.held_at}]"
            self._emit_values(roots, done | self.along, scope)
            for value in [v for v in self.held if v in scope and v not in self.kept_already]:
                out(f"{self.held[value]}[{self.held_at}] = {scope[value]};")
                self.kept_already.add(value)
            for value, part in zip(reduces, parts, strict=True):
                self.add(value, part, scope)
            for value in tails:
                self.add(value, self.accumulators[value], scope)
            self._write(stores, scope)
        for value, part in zip(reduces, parts, strict=True):
            self.end_part(value, part, names)

    def begin_part(self, value: Value) -> str:
        """Declares what a thread makes of its share."""
        part = self.names.fresh("part")
        self.out(f"{'double' if value.fn in SUMS else 'float'} {part} = {START[value.fn]};")
        return part

    def end_part(self, value: Value, part: str, names: dict[Value, str]) -> None:
        """From the shares of a row's threads to the reduction."""
        whole = part
        if self.form != "columns":
            whole = self.names.fresh("whole")
            self.out(f"const auto {whole} = reduce::across<reduce::{OPERATIONS[value.fn]}, {self.row_threads}>({part});")
        self.wide[value], names[value] = whole, f"float({whole})"
