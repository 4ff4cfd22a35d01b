"""What passes between the processes as the parent sees it: values in shared memory, calls, and the ways a program can fail."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gpu_runner.contracts import Refusal
from gpu_runner.sandbox import Memory
from gpu_runner.verdict import Trouble

COUNTER = "num_batches_tracked"  # of BatchNorm, which a program may do without
MAX_LEAVES = 4096
MAX_RANK = 64  # torch's own
COPY_BYTES = 256 << 20  # what the parent takes on its own account of a memory that its writer does not let go of
_ITEM = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "complex64": 8, "complex128": 16, "int64": 8, "int32": 4,
         "int16": 2, "int8": 1, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "bool": 1, "float8_e4m3fn": 1,
         "float8_e5m2": 1}  # fmt: skip


class ProgramRefused(Exception):
    """A program did something wrong in its process; `refusal` is the sentence for people. `side` says whose."""

    def __init__(self, side: str, refusal: Refusal) -> None:
        super().__init__(refusal.sentence)
        self.side, self.refusal = side, refusal

    @property
    def trouble(self) -> Trouble:
        return Trouble(self.side, self.refusal.code, self.refusal.sentence, self.refusal.log)


class ProgramEnded(Exception):
    """A program's process is gone: crashed, out of memory or out of time. `code` is the refusal's."""

    def __init__(self, side: str, code: str, sentence: str, log: str = "") -> None:
        super().__init__(sentence)
        self.side, self.code, self.sentence, self.log = side, code, sentence, log

    @property
    def refusal(self) -> Refusal:
        ways = {
            "out_of_memory": "Make the inputs or the model smaller, or raise the memory limit.",
            "timed_out": "Make the program end sooner, or raise the time limit.",
        }
        return Refusal(code=self.code, sentence=self.sentence, way_out=ways.get(self.code, ""), log=self.log)

    @property
    def trouble(self) -> Trouble:
        return Trouble(self.side, self.code, self.sentence, self.log, "ended")


class Forged(ProgramEnded):
    """A program's process sent an answer that our code in it cannot have sent."""

    def __init__(self, side: str, sentence: str, log: str = "", code: str = "forged_answer") -> None:
        super().__init__(side, code, sentence, log)

    @property
    def trouble(self) -> Trouble:
        return Trouble(self.side, self.code, self.sentence, self.log, "forged")


@dataclass
class Value:
    """A nested value of tensors in shared memory, which nobody can change any more."""

    manifest: dict[str, Any]
    memory: Memory

    @property
    def sizes(self) -> list[int]:
        """Bytes of each tensor."""
        return [leaf["nbytes"] for leaf in self.manifest["leaves"] if leaf["kind"] == "tensor"]

    @property
    def nbytes(self) -> int:
        return int(self.manifest["bytes"])

    def close(self) -> None:
        self.memory.close()


def buffer_names(value: Value) -> set[str]:
    """Of a process' buffers, those that count."""
    tree = value.manifest["tree"]
    return {name for name in tree if not name.endswith(COUNTER)} if isinstance(tree, dict) else set()


def only(value: Value, names: set[str]) -> Value:
    """The same dict of tensors with some of its keys, in one order."""
    keys, chosen = list(value.manifest["tree"]), sorted(names)
    leaves = [value.manifest["leaves"][keys.index(name)] for name in chosen]
    return Value({**value.manifest, "tree": dict.fromkeys(chosen, "*"), "leaves": leaves}, value.memory)


def settled(side: str, memory: Memory, size: int) -> Memory:
    """Takes over what a program's process wrote into `memory` (its first `size` bytes): from here on it cannot change.

    A process that keeps a writable mapping, which ours never does, could change it after it was looked at; then it is copied,
    and the memory closed. Raises Forged where that is too much to copy.
    """
    if memory.seal():
        return memory
    if size > COPY_BYTES:
        raise Forged(side, f"The {side}'s process keeps a hold on {size >> 20} MiB of results that it had handed over.")
    copy = memory.copy(size)
    memory.close()
    return copy


def checked_manifest(side: str, manifest: Any, size: int) -> dict[str, Any]:
    """A manifest that came out of a process, or `Forged`. Every tensor must lie inside the memory and match its own sizes."""
    try:
        leaves = manifest["leaves"]
        total = manifest["bytes"]
        ok = isinstance(total, int) and 0 <= total <= size and len(leaves) <= MAX_LEAVES
        ok = ok and _leaves_of(manifest["tree"]) == len(leaves)
        for leaf in leaves:
            if leaf["kind"] == "literal":
                ok = ok and _is_literal(leaf["value"])
                continue
            shape, stride = leaf["shape"], leaf["stride"]
            numbers = [leaf["offset"], leaf["nbytes"], *shape, *stride]
            ok = ok and all(type(n) is int and 0 <= n < 1 << 62 for n in numbers) and len(shape) == len(stride) <= MAX_RANK
            ok = ok and math.prod(max(1, n) for n in shape) < 1 << 62
            ok = ok and leaf["nbytes"] == math.prod(shape) * _ITEM[leaf["dtype"]]
            ok = ok and leaf["offset"] % 64 == 0 and leaf["offset"] + leaf["nbytes"] <= total
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        ok = False
    if not ok:
        raise Forged(side, f"The {side}'s process described its results in a way that cannot be.")
    return dict(manifest)


def _is_literal(value: Any) -> bool:
    """Whether it can be decoded as `child.tensors.encode_literal` encodes."""
    if isinstance(value, list):
        return all(_is_literal(item) for item in value)
    if not isinstance(value, dict):
        return True
    if len(value) != 1:
        return False
    ((tag, inner),) = value.items()
    if tag == "float":
        return inner in ("nan", "inf", "-inf")
    if tag == "dtype":
        return isinstance(inner, str) and inner in _ITEM
    if tag == "tuple":
        return isinstance(inner, list) and _is_literal(inner)
    pairs = tag == "dict" and isinstance(inner, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in inner)
    return pairs and all(_is_key(key) and _is_literal(item) for key, item in inner)


def _is_key(value: Any) -> bool:
    """Whether a literal can be the key of a dict."""
    if isinstance(value, dict):
        return _is_literal(value) and "dict" not in value and all(_is_key(item) for item in value.get("tuple", ()))
    return not isinstance(value, list)


def _leaves_of(tree: Any) -> int:
    if tree == "*":
        return 1
    if isinstance(tree, dict):
        return sum(_leaves_of(item) for item in tree.values())
    if isinstance(tree, list) and tree and tree[0] in ("tuple", "list"):
        return sum(_leaves_of(item) for item in tree[1:])
    raise TypeError("not a tree")


@dataclass
class Call:
    """What one call of a program gave. Times in nanoseconds; `wall_ns` is the parent's clock around the request.

    `before_ns` and `after_ns`: the parent's clock around laying out the inputs and taking out the results, 0 where none looked;
    `before_cpu_ns`: how long the kernel saw the program's processes run meanwhile; `woken_ns`: around waking its threads.
    `first_thread_ns`: how long the kernel saw the process' first thread run meanwhile. `neighbours`: CPU time that other
    processes took meanwhile, as a share of one core; None where that was not looked at.
    """

    ns: int
    wall_ns: int
    device_ns: int | None = None
    neighbours: float | None = None
    first_thread_ns: int = 0
    before_ns: int = 0
    before_cpu_ns: int = 0
    woken_ns: int = 0
    after_ns: int = 0
    output: Value | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    inputs_after: Value | None = None

    def close(self) -> None:
        """Give the memory of the results back (the inputs afterwards lie in the same one)."""
        if self.output is not None:
            self.output.close()


@contextmanager
def closing(*values: Value | Call | None) -> Iterator[None]:
    """Give the memory of values back at the end."""
    try:
        yield
    finally:
        for value in values:
            if value is not None:
                value.close()
