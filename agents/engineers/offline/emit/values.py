"""Declares the values of a nest inside its loops: what is needed, where it is finished, under which name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from agents.engineers.offline.emit.expressions import C_TYPES, EXPRESSIONS, literal
from agents.engineers.offline.emit.text import Lines, Names, identifier
from agents.engineers.offline.ir import Axis, Nest, Store, Value
from agents.engineers.offline.nests import tail_reductions


class ValueWriter:
    """Names for the pointers, indices and values of one nest. `types` gives the dtype of a graph name.

    `plain`: pointers are called in, in2, out …, so that kernels that differ in names alone read the same.
    """

    def __init__(
        self, nest: Nest, name: str, types: Callable[[str], str], reserved: Iterable[str] = (), plain: bool = False
    ) -> None:
        self.nest = nest
        self.name = name
        self.types = types
        self.out = Lines()
        self.names = Names({"std", name, *reserved})
        self.inner = [*nest.reduced, *nest.kept]
        self.tails = tail_reductions(nest)
        self.pointers: dict[str, str] = {}
        for tensor in nest.loads:
            self.pointers[tensor] = self.names.fresh("in" if plain else identifier(tensor))
        self.targets: dict[int, str] = {}
        for store in nest.stores:
            self.targets[id(store)] = self.names.fresh("out" if plain else identifier(f"out_{store.name}"))
        self.index: dict[Axis, str] = {}
        for axes, letters in ((nest.outer, "nmgh"), (nest.reduced, "ijrs"), (nest.kept, "klqt")):
            for axis, letter in zip(axes, letters, strict=False):
                self.index[axis] = self.names.fresh(letter)
            for axis in axes[len(letters) :]:
                self.index[axis] = self.names.fresh("axis")
        self.level: dict[Value, int] = {}
        self.tail_cone = self._cone(self.tails)
        for value in nest.values:
            self.level[value] = max((self.level[a] for a in value.args), default=0) + (value.op == "reduce")
        self.buffered: dict[Value, str] = {}  # kept in a row buffer for a later pass
        self._written: set[Value] = set()  # of those, the ones whose buffer is filled
        self.accumulators: dict[Value, str] = {}

    def _cone(self, roots: Iterable[Value]) -> set[Value]:
        """The values that depend on one of `roots`, and the roots."""
        cone = set(roots)
        for value in self.nest.values:
            if any(a in cone for a in value.args):
                cone.add(value)
        return cone

    def _array(self, value: Value) -> bool:
        return any(a in value.axes for a in self.nest.kept) and value not in self.tails

    # Values

    def _emit_values(self, wanted: list[Value], done: set[Axis], names: dict[Value, str]) -> None:
        """Declare what `wanted` needs, is not named yet and varies along open loops (`done`) alone; add it to `names`."""
        needed: set[Value] = set()
        stack = list(wanted)
        while stack:
            value = stack.pop()
            if value in needed or value in names:
                continue
            needed.add(value)
            if value.op != "reduce" and not (value in self.buffered and self._filled(value, done)):
                stack.extend(value.args)
        for value in self.nest.values:
            if value not in needed or value in names:
                continue
            if not value.axes <= done:
                continue
            if any(a not in names for a in value.args) and value.op not in ("reduce",) and not self._filled(value, done):
                continue
            self._emit_value(value, names, done)

    def _filled(self, value: Value, done: set[Axis]) -> bool:
        return value in self.buffered and value in self._written and value.axes <= done

    def _emit_value(self, value: Value, names: dict[Value, str], done: set[Axis]) -> None:
        out = self.out
        if value.op == "const":
            names[value] = literal(value)
            return
        if value.op == "reduce":
            if self._array(value):
                names[value] = f"{self.accumulators[value]}[{self._place(value, self.nest.kept)}]"
            return
        if value.op == "call" and value.fn == "same":
            names[value] = names[value.args[0]]
            return
        if self._filled(value, done):
            names[value] = f"{self.buffered[value]}[{self._place(value, self.inner)}]"
            return
        name = self.names.fresh(hint(value, self.pointers))
        kind = C_TYPES[value.kind]
        if value.op == "index":
            out(f"const int {name} = {self._address(value)};")
        elif value.op == "load":
            out(f"const {kind} {name} = {self.read(value, names[value.args[0]] if value.window is not None else '')};")
        elif value.op == "gather":
            row = f"{names[value.args[0]]} * {value.gather_stride}"
            rest = self._address(value)
            out(f"const {kind} {name} = {self.pointers[value.tensor]}[{row}{'' if rest == '0' else ' + ' + rest}];")
        else:
            out(f"const {kind} {name} = {EXPRESSIONS[value.fn](*(names[a] for a in value.args))};")
        names[value] = name
        if value in self.buffered:
            out(f"{self.buffered[value]}[{self._place(value, self.inner)}] = {name};")
            self._written.add(value)

    def read(self, value: Value, at: str) -> str:
        """What a load reads; `at`: of one that is a part of a longer axis, the position along it."""
        pointer, window = self.pointers[value.tensor], value.window
        if window is None:
            return f"{pointer}[{self._address(value)}]"
        inside = [f"{at} >= {window.first}"] * (window.first > 0) + [f"{at} < {window.first + window.size}"]
        back = f" - {window.first * window.stride}" if window.first else ""
        return f"{' && '.join(inside)} ? {pointer}[{self._address(value)}{back}] : {C_TYPES[value.kind]}(0)"

    def _address(self, tensor: Value | Store) -> str:
        parts = []
        for axis in (*self.nest.outer, *self.inner):
            stride = tensor.stride_of(axis)
            if stride:
                parts.append(self.index[axis] if stride == 1 else f"{self.index[axis]} * {stride}")
        return " + ".join(parts) or "0"

    def _place(self, value: Value, among: list[Axis]) -> str:
        """Row-major position in a buffer over the axes of `among` that the value varies along."""
        axes = [a for a in among if a in value.axes]
        parts = []
        for k, axis in enumerate(axes):
            step = math.prod(a.size for a in axes[k + 1 :])
            parts.append(self.index[axis] if step == 1 else f"{self.index[axis]} * {step}")
        return " + ".join(parts) or "0"

    def _write(self, stores: list[Store], names: dict[Value, str]) -> None:
        for store in stores:
            self.out(f"{self.targets[id(store)]}[{self._address(store)}] = {names[store.value]};")


def c_type(dtype: str) -> str:
    return {"float32": "float", "int64": "long", "bool": "bool"}[dtype]


def hint(value: Value, pointers: dict[str, str]) -> str:
    if value.op in ("load", "gather"):
        return f"{pointers[value.tensor]}_at"
    if value.op == "index":
        return "place"
    return {"sub": "diff", "mul": "prod", "add": "sum_", "div": "quot", "where": "pick", "square": "sq"}.get(
        value.fn, f"v_{value.fn}"
    )
