"""C++ for a loop nest: passes over a row in cache, one vector loop each, rows in parallel.

A reduction must be complete before what depends on it starts, so values have levels and each level is one pass. Cheap values
are computed again in a later pass (their operands are in cache); values with an exponential in them are kept in a buffer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from agents.engineers.offline.emit.expressions import EXPENSIVE
from agents.engineers.offline.emit.text import comment
from agents.engineers.offline.emit.values import ValueWriter, c_type
from agents.engineers.offline.ir import Axis, Nest, Store, Value

MAX_BUFFER = 32768  # elements of a row kept on the stack of a thread (128 kB, a quarter of an L2 cache)
BLOCK = 4096  # elements of one thread's turn when one long tensor becomes one number
PARALLEL_FROM = 16384  # points below which waking the other threads costs more than it saves
IDENTITY = {
    "sum": "0.0f",
    "top": "-std::numeric_limits<float>::infinity()",
    "max": "-std::numeric_limits<float>::infinity()",
    "min": "std::numeric_limits<float>::infinity()",
}


# How partial results combine; nan_max and nan_min keep a NaN, as PyTorch does, and stand in fastmath.h.
COMBINE = {"sum": "+", "top": "max", "max": "nan_max", "min": "nan_min"}


@dataclass(frozen=True)
class Kernel:
    """A C function: `inputs` and `outputs` are graph names in the order of its pointer arguments; `scratch` as in `host.Call`."""

    name: str
    source: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scratch: tuple[int, ...] = ()


def emit_nest(nest: Nest, name: str, why: str, types: Callable[[str], str], plain: bool = False) -> Kernel:
    """The whole source file of one nest. `types` gives the dtype of a graph name; `plain` names pointers by position."""
    return Emitter(nest, name, types, plain=plain).kernel(why)


class Emitter(ValueWriter):
    # The file

    def kernel(self, why: str) -> Kernel:
        nest, out = self.nest, self.out
        for line in comment(why):
            out(line)
        out('#include "fastmath.h"')
        out()
        reads = [f"const {c_type(self.types(t))}* __restrict {self.pointers[t]}" for t in nest.loads]
        writes = [f"{c_type(self.types(s.name))}* __restrict {self.targets[id(s)]}" for s in nest.stores]
        with out.block(f'extern "C" void {self.name}({", ".join(reads + writes)}) {{'):
            for value in self.tails:
                kind = {"sum": "0.0", "max": "-INFINITY", "top": "-INFINITY", "min": "INFINITY"}[value.fn]
                self.accumulators[value] = self.names.fresh("total")
                out(f"double {self.accumulators[value]} = {kind};")
            self._outer_loops()
            names: dict[Value, str] = {}
            for value in self.tails:
                names[value] = self.names.fresh("whole")
                out(f"const float {names[value]} = (float){self.accumulators[value]};")
            for store in nest.stores:
                if store.value in self.tail_cone:
                    self._emit_values([store.value], set(), names)
                    out(f"{self.targets[id(store)]}[0] = {names[store.value]};")
        return Kernel(self.name, out.text(), tuple(nest.loads), tuple(s.name for s in nest.stores))

    def _reduction_clause(self) -> str:
        return "".join(f" reduction({COMBINE[v.fn]} : {self.accumulators[v]})" for v in self.tails)

    def _outer_loops(self) -> None:
        nest, out = self.nest, self.out
        guard = "" if nest.elements >= PARALLEL_FROM else " if (false)"
        if not nest.outer:
            if not nest.reduced and len(nest.kept) == 1 and not self.tails:
                self._flat(guard)
            elif self._only_tails():
                self._flat_tail(guard)
            else:
                self._body()
            return
        collapse = f" collapse({len(nest.outer)})" if len(nest.outer) > 1 else ""
        out(f"#pragma omp parallel for schedule(static){collapse}{guard}{self._reduction_clause()}")
        for axis in nest.outer:
            out(f"for (long {self.index[axis]} = 0; {self.index[axis]} < {axis.size}; ++{self.index[axis]}) {{")
            if axis is not nest.outer[-1]:
                continue
            out.depth += 1
            self._body()
            out.depth -= 1
        for _ in nest.outer:
            out("}")

    def _only_tails(self) -> bool:
        return bool(self.tails) and not self.nest.reduced and len(self.nest.kept) == 1

    def _flat(self, guard: str) -> None:
        """No row structure: one long vector loop shared by the threads."""
        axis = self.nest.kept[0]
        i = self.index[axis]
        self.out(f"#pragma omp parallel for simd schedule(static){guard}")
        with self.out.block(f"for (long {i} = 0; {i} < {axis.size}; ++{i}) {{"):
            names: dict[Value, str] = {}
            self._emit_values([s.value for s in self.nest.stores], {axis}, names)
            self._write(self.nest.stores, names)

    def _flat_tail(self, guard: str) -> None:
        """One number out of one long tensor: blocks in parallel, each summed in double lanes."""
        axis = self.nest.kept[0]
        i = self.index[axis]
        out = self.out
        out(f"#pragma omp parallel for schedule(static){guard}{self._reduction_clause()}")
        with out.block(f"for (long block = 0; block < {axis.size}; block += {BLOCK}) {{"):
            parts = [self._start_part(v) for v in self.tails]
            out(f"const long end = block + {BLOCK} < {axis.size} ? block + {BLOCK} : {axis.size};")
            out(f"#pragma omp simd{self._lane_clause(self.tails, parts)}")
            with out.block(f"for (long {i} = block; {i} < end; ++{i}) {{"):
                names: dict[Value, str] = {}
                stores = [s for s in self.nest.stores if s.value not in self.tail_cone]
                self._emit_values([*(v.args[0] for v in self.tails), *(s.value for s in stores)], {axis}, names)
                for value, part in zip(self.tails, parts, strict=True):
                    self._accumulate(value.fn, part, names[value.args[0]])
                self._write(stores, names)
            for value, part in zip(self.tails, parts, strict=True):
                self._accumulate(value.fn, self.accumulators[value], part)

    # The inside of the parallel loop

    def _body(self) -> None:
        nest = self.nest
        done = set(nest.outer)
        names: dict[Value, str] = {}
        reduces = [v for v in nest.values if v.op == "reduce" and v not in self.tails]
        stores = [s for s in nest.stores if s.value not in self.tail_cone]
        last = max([self.level[s.value] for s in stores] + [self.level[v.args[0]] for v in self.tails], default=0)
        self._choose_buffers(reduces, stores)
        for value, buffer in self.buffered.items():
            size = math.prod(a.size for a in self.inner if a in value.axes)
            self.out(f"alignas(64) float {buffer}[{size}];  // {value.fn}, kept for a later pass")
        for level in range(last + 1):
            here = [v for v in reduces if self.level[v.args[0]] == level]
            write = [s for s in stores if self.level[s.value] == level]
            tails = [v for v in self.tails if self.level[v.args[0]] == level]
            self._pass(here, write, tails, done, names)

    def _choose_buffers(self, reduces: list[Value], stores: list[Store]) -> None:
        """Values with an exponential in them that more than one pass needs."""
        passes: dict[Value, set[int]] = {}
        roots = [(v.args[0], self.level[v.args[0]]) for v in (*reduces, *self.tails)]
        roots += [(s.value, self.level[s.value]) for s in stores]
        for root, level in roots:
            stack, seen = [root], set()
            while stack:
                value = stack.pop()
                if value in seen or value.op == "reduce":
                    continue
                seen.add(value)
                passes.setdefault(value, set()).add(level)
                stack.extend(value.args)
        inner = set(self.inner)
        for value in self.nest.values:
            used = passes.get(value, set())
            if value.op != "call" or value.fn not in EXPENSIVE or len(used) < 2 or not value.axes & inner:
                continue
            if math.prod(a.size for a in self.inner if a in value.axes) <= MAX_BUFFER:
                self.buffered[value] = self.names.fresh("row")

    def _pass(
        self, reduces: list[Value], stores: list[Store], tails: list[Value], done: set[Axis], names: dict[Value, str]
    ) -> None:
        inner = set(self.inner)
        jobs: dict[tuple[Axis, ...], tuple[list[Value], list[Store], list[Value]]] = {}

        def job(axes: frozenset[Axis]) -> tuple[list[Value], list[Store], list[Value]]:
            key = tuple(a for a in self.inner if a in axes & inner)
            return jobs.setdefault(key, ([], [], []))

        for value in reduces:
            job(value.args[0].axes)[0].append(value)
        for store in stores:
            job(frozenset(a for dim in store.dims for a in dim))[1].append(store)
        for value in tails:
            job(value.args[0].axes)[2].append(value)
        for axes in sorted(jobs, key=len, reverse=True):
            self._job(axes, *jobs[axes], done, names)

    def _job(
        self,
        axes: tuple[Axis, ...],
        reduces: list[Value],
        stores: list[Store],
        tails: list[Value],
        done: set[Axis],
        names: dict[Value, str],
    ) -> None:
        out = self.out
        wanted = [*(v.args[0] for v in (*reduces, *tails)), *(s.value for s in stores)]
        for value in reduces:
            kept = [a for a in self.nest.kept if a in value.axes]
            acc = self.names.fresh({"sum": "sum", "max": "most", "top": "top", "min": "least"}[value.fn])
            self.accumulators[value] = acc
            if kept:
                size = math.prod(a.size for a in kept)
                out(f"alignas(64) float {acc}[{size}];")
                out(f"for (long z = 0; z < {size}; ++z) {acc}[z] = {IDENTITY[value.fn]};")
            else:
                out(f"{'double' if value.fn == 'sum' else 'float'} {acc} = {IDENTITY[value.fn]};")
        if not axes:
            self._emit_values(wanted, done, names)
            for value in tails:
                self._accumulate(value.fn, self.accumulators[value], names[value.args[0]])
            self._write(stores, names)
            return
        self._emit_values(wanted, done, names)
        self._loops(list(axes), 0, set(done), dict(names), wanted, reduces, stores, tails)
        for value in reduces:
            if not any(a in value.axes for a in self.nest.kept):
                acc = self.accumulators[value]
                names[value] = f"(float){acc}" if value.fn == "sum" else acc

    def _loops(
        self,
        axes: list[Axis],
        depth: int,
        done: set[Axis],
        names: dict[Value, str],
        wanted: list[Value],
        reduces: list[Value],
        stores: list[Store],
        tails: list[Value],
    ) -> None:
        out = self.out
        self._emit_values(wanted, done, names)
        axis = axes[depth]
        i = self.index[axis]
        if depth + 1 < len(axes):
            with out.block(f"for (long {i} = 0; {i} < {axis.size}; ++{i}) {{"):
                self._loops(axes, depth + 1, done | {axis}, dict(names), wanted, reduces, stores, tails)
            return
        lanes = [v for v in (*reduces, *tails) if not self._array(v)]
        parts = [self._start_part(v) for v in lanes]
        if axis.size >= 4:
            out(f"#pragma omp simd{self._lane_clause(lanes, parts)}")
        with out.block(f"for (long {i} = 0; {i} < {axis.size}; ++{i}) {{"):
            scope = dict(names)
            self._emit_values(wanted, done | {axis}, scope)
            for value, part in zip(lanes, parts, strict=True):
                self._accumulate(value.fn, part, scope[value.args[0]])
            for value in reduces:
                if self._array(value):
                    place = f"{self.accumulators[value]}[{self._place(value, self.nest.kept)}]"
                    self._accumulate(value.fn, place, scope[value.args[0]])
            self._write(stores, scope)
        for value, part in zip(lanes, parts, strict=True):
            self._accumulate(value.fn, self.accumulators[value], part)

    def _start_part(self, value: Value) -> str:
        part = self.names.fresh("part")
        # Sums in double: on a constant row a mean that is off by one rounding is magnified 1/sqrt(eps) times by a normalisation.
        self.out(f"{'double' if value.fn == 'sum' else 'float'} {part} = {IDENTITY[value.fn]};")
        return part

    def _lane_clause(self, values: list[Value], parts: list[str]) -> str:
        return "".join(f" reduction({COMBINE[v.fn]} : {p})" for v, p in zip(values, parts, strict=True))

    def _accumulate(self, fn: str, target: str, value: str) -> None:
        if fn == "sum":
            self.out(f"{target} += {value};")
        elif fn == "top":
            self.out(f"{target} = {value} > {target} ? {value} : {target};")
        else:
            sign = ">" if fn == "max" else "<"
            self.out(f"{target} = {value} {sign} {target} || {value} != {value} ? {value} : {target};")
