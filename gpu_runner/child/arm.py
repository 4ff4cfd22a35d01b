"""One program that is called again and again: the same code path for the reference, the compiled reference and the candidate.

A call is four requests, whatever it is for (a check, a warm-up, a timed sample), so that a program cannot tell them apart:
`prepare` makes private inputs and cold caches, `wake` has torch's threads ready, `go` is the call and nothing else, `collect`
takes the results out.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import tensors
from .state import Owned

# Taken before any user code runs: a program that replaces them in the `time` module does not change ours.
_clock = time.perf_counter_ns
_sleep = time.sleep
_event = torch.cuda.Event
_random = os.urandom
_into, _out_of, _from = os.writev, os.read, os.pread
_pipe = os.pipe()
_address = torch.Tensor.data_ptr
LATE_WORK_S = 0.05  # how long a result is watched for changes after the call returned
SEALED = 32  # elements of each result that are read the moment the call returns,
SEALED_RESULTS = 8  # of so many results
PROTECTED = "tensor on protected pages"
GRAIN = 32768  # elements that torch gives to one thread at least
WAKE_NS, AWAKE = 10_000_000, 3  # for so long at most, until it takes no more than so many times the quickest one's time
POISONED, POISON_BYTES = 8, 64 << 20  # blocks of one size, as long as they take no more than that
_evict: dict[str, torch.Tensor] = {}


def set_precision(precision: str) -> None:
    """Process-wide arithmetic flags. `as-reference` leaves PyTorch's defaults."""
    if precision == "tf32":
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True


def arithmetic(precision: str, device: str) -> contextlib.AbstractContextManager[Any]:
    """The context of one forward: no gradients, and autocast where bf16 was asked for."""
    stack = contextlib.ExitStack()
    stack.enter_context(torch.no_grad())
    if precision == "bf16":
        stack.enter_context(torch.autocast(torch.device(device).type, dtype=torch.bfloat16))
    return stack


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Work of ours that leaves no thread of OpenMP spinning beside what is measured next."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_awake: dict[str, Any] = {}


def wake_threads() -> None:
    """Have torch's threads awake and on cores of their own, as between the operations of a program.

    Those that sleep are woken on any core, and if that is the first thread's own, both share it for tens of milliseconds with
    all others idle. Kernels that are built here use the same threads.
    """
    if torch.get_num_threads() < 2:
        return
    if not _awake:
        _awake.update(block=torch.zeros(torch.get_num_threads() * 2 * GRAIN), best=1 << 62)
    start = now = _clock()
    while now - start < WAKE_NS:
        before = now
        _awake["block"].add_(1)
        now = _clock()
        took = now - before
        _awake["best"] = min(_awake["best"], took)
        if took <= AWAKE * _awake["best"]:
            return


def evict_caches(size: int, device: str) -> None:
    """Push everything out of a device's caches by going over `size` bytes that nobody else uses; the processor's the parent
    empties."""
    block = _evict.get(device)
    if block is None or block.numel() * 4 < size:
        block = _evict[device] = torch.ones(max(1, size // 4), dtype=torch.int32, device=device)
    block.add_(1)


def reset_persisting_lines() -> None:
    """Make lines of the second-level cache that a program marked as persisting ordinary again: eviction does not reach them."""
    try:
        ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache()
    except (OSError, AttributeError):
        return  # no such cache, so no such lines


def poison(sizes: list[int], device: str) -> None:
    """Fill memory that the allocator will hand out next with NaN patterns, so that unwritten results show.

    Several blocks of each size: after some calls more than one of them waits to be handed out.
    """
    times = {size: max(1, min(POISONED, POISON_BYTES // size)) for size in sizes if size}
    blocks = [torch.empty(size, dtype=torch.uint8, device=device).fill_(0xFF) for size, n in times.items() for _ in range(n)]
    del blocks


def _places(count: int) -> list[int]:
    """A few elements out of `count` that nobody can guess, the first and the last among them."""
    drawn = _random(8 * SEALED)
    return [0, count - 1, *(int.from_bytes(drawn[i : i + 8], "little") % count for i in range(0, len(drawn), 8))]


def _offsets(tensor: torch.Tensor, places: list[int]) -> list[int]:
    """Where elements lie, in elements from the first one."""
    offsets = []
    for place in places:
        offset = 0
        for size, step in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
            place, index = divmod(place, size)
            offset += index * step
        offsets.append(offset)
    return offsets


def _read(tensor: torch.Tensor, offsets: list[int]) -> list[bytes | None]:
    """Single elements; None for one that may not be read."""
    size = tensor.element_size()
    if tensor.device.type != "cpu":
        flat = tensor.as_strided((max(offsets) + 1,), (1,))
        tensor, offsets = flat[torch.tensor(offsets, device=tensor.device)].cpu(), list(range(len(offsets)))
    base, element = _address(tensor), ctypes.c_char * size
    # Through the kernel: it runs no handler of the program for a page that may not be read, as reading it here would.
    try:
        count = _into(_pipe[1], [element.from_address(base + size * offset) for offset in offsets])
    except OSError as error:
        if error.errno != errno.EFAULT:
            raise
        count = 0
    content = _out_of(_pipe[0], count) if count else b""
    return [content[at : at + size] or None for at in range(0, size * len(offsets), size)]


class Seal:
    """A few elements of the results, or of what a call leaves elsewhere, as they were when it returned: what is handed over in
    their place was no part of it.

    `unreadable`: some lay on pages that nobody may read, so that whoever reads them could have them computed.
    """

    def __init__(self, output: Any) -> None:
        self.leaves = tensors.flatten(output)[1]
        results = [(number, leaf) for number, leaf in enumerate(self.leaves) if _plain(leaf)]
        if len(results) > SEALED_RESULTS:
            first = int.from_bytes(_random(4), "little") % len(results)
            results = (results[first:] + results[:first])[:SEALED_RESULTS]
        self._held: list[tuple[int, list[int], list[bytes | None]]] = []
        self._where: list[tuple[torch.Tensor, list[int]]] = []
        for number, leaf in results:
            plain, places = leaf.resolve_conj().resolve_neg(), _places(leaf.numel())
            self._where.append((plain, _offsets(plain, places)))
            self._held.append((number, places, _read(*self._where[-1])))
        self.unreadable = any(element is None for _, _, content in self._held for element in content)

    def broken(self, manifest: dict[str, Any], fd: int) -> int:
        """How many of them were handed over as something else, in the memory `fd` that the manifest describes."""
        count = 0
        for number, places, content in self._held:
            offset = manifest["leaves"][number].get("offset")
            for place, then in zip(places, content, strict=True):
                size = len(then or b"0")
                # Without one the result is described as no tensor; what that is the parent says.
                count += then is None or offset is None or _from(fd, size, offset + size * place) != then
        return count

    def moved(self) -> int:
        """How many of them are something else by now, where they lay."""
        pairs = zip(self._where, self._held, strict=True)
        return sum(a != b for where, (_, _, then) in pairs for a, b in zip(_read(*where), then, strict=True))


def _plain(leaf: Any) -> bool:
    return (
        type(leaf) in (torch.Tensor, torch.nn.Parameter)
        and leaf.layout == torch.strided
        and leaf.device.type != "meta"
        and leaf.numel() > 0
    )


class Arm:
    """A module with private inputs. Times in nanoseconds. `owned`: gives the module's own tensors, as they are."""

    def __init__(self, model: Any, device: str, precision: str, owned: Callable[[], Owned]) -> None:
        self.model, self.device, self.precision, self.owned = model, device, precision, owned
        self.inputs: list[Any] = []
        self.output: Any = None
        self._seal: Seal | None = None
        self._left: Seal | None = None  # of inputs and buffers, which a call may change
        self._before: list[int] = []
        self._kept: list[tuple[torch.Tensor, int]] = []  # earlier results and their content
        self._watched = False
        self._events: tuple[Any, Any] | None = None
        if device != "cpu":
            self._events = (_event(enable_timing=True), _event(enable_timing=True))

    def prepare(self, payload: dict[str, Any], fd: int) -> dict[str, Any]:
        """Private copies of the inputs behind `payload["inputs"]`.

        `storage`: "same" writes the content into the tensors of the last call, "fresh" takes new ones. `evict`: bytes of a
        device's memory to go over.
        `poison`: sizes in bytes of memory to poison. `watch`: remember the inputs' content, to see whether the call changes it.
        """
        self.output = self._seal = self._left = None
        self._watched = bool(payload.get("watch"))
        given = tensors.view(payload["inputs"], fd)
        if not (payload.get("storage") == "same" and self._overwrite(payload["inputs"], given)):
            self.inputs = list(tensors.copies(payload["inputs"], given, self.device))
        self._before = [tensors.fingerprint(t) for t in tensors.tensors_in(self.inputs)] if self._watched else []
        poison(payload.get("poison", []), self.device)
        if payload.get("evict"):
            reset_persisting_lines()
            evict_caches(payload["evict"], self.device)
        if self._events:
            torch.cuda.synchronize()
        gc.collect(0)
        return {}

    def _overwrite(self, manifest: dict[str, Any], given: list[Any]) -> bool:
        """Write the content into the tensors of the last call; False where the form or what is no tensor differs."""
        old, new = tensors.flatten(self.inputs)[1], list(zip(manifest["leaves"], given, strict=True))
        if len(old) != len(new) or not all(_same_form(*pair) for pair in zip(old, new, strict=True)):
            return False
        for target, (_, source) in zip(old, new, strict=True):
            if isinstance(target, torch.Tensor):
                tensors.copy(target, source)
        return True

    def go(self) -> dict[str, Any]:
        """One call. `ns`: the host's clock around call and synchronisation; `device_ns`: the device's own, if any."""
        gc.disable()
        try:
            with arithmetic(self.precision, self.device):
                if self._events is None:
                    start = _clock()
                    self.output = self.model(*self.inputs)
                    reply = {"ns": _clock() - start}
                else:
                    first, last = self._events
                    start = _clock()
                    first.record()
                    self.output = self.model(*self.inputs)
                    # The whole device before the last event, which waits for no stream but its own.
                    torch.cuda.synchronize()
                    last.record()
                    last.synchronize()
                    end = _clock()
                    reply = {"ns": end - start, "device_ns": int(first.elapsed_time(last) * 1e6)}
                self._seal = _sealed(self.output)
                self._left = _sealed([self.inputs, self.owned().buffers]) if self._watched else None
                return reply
        finally:
            gc.enable()

    def collect(self, payload: dict[str, Any], fd: int) -> dict[str, Any]:
        """The results into `fd`, and facts about them. `watch` adds what takes time: late changes and earlier results."""
        output = self.output
        _, leaves = tensors.flatten(output)
        protected = self._seal is not None and self._seal.unreadable
        facts: dict[str, Any] = {"types": [PROTECTED if protected else _type_of(leaf) for leaf in leaves]}
        around = {i: tensors.guard_changed(t) for i, t in enumerate(tensors.tensors_in(self.inputs))}
        facts["outside"] = {i: count for i, count in around.items() if count}
        manifest = tensors.write(output, fd)
        facts["late"] = self._seal.broken(manifest, fd) if self._seal is not None else 0
        reply: dict[str, Any] = {"output": manifest, "facts": facts}
        if payload.get("watch"):
            results = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            facts["aliases"] = self._aliases(results)
            facts["late"] = facts["late"] or self._changes_late(results) or self._left_late()
            facts["overwritten"] = sum(tensors.fingerprint(kept) != content for kept, content in self._kept)
            # Only the latest result is kept: enough to see a program that hands out the same memory twice.
            self._kept = [(t, tensors.fingerprint(t)) for t in results]
            if self._before:
                after = [tensors.fingerprint(t) for t in tensors.tensors_in(self.inputs)]
                facts["changed_inputs"] = [i for i, (a, b) in enumerate(zip(self._before, after, strict=True)) if a != b]
                if facts["changed_inputs"]:
                    reply["inputs_after"] = tensors.write(self.inputs, fd, manifest["bytes"])
        return reply

    def forget(self) -> None:
        """Let go of inputs and results."""
        self.inputs, self.output, self._seal, self._left, self._kept = [], None, None, None, []

    def _changes_late(self, results: list[torch.Tensor]) -> int:
        now = [tensors.fingerprint(t) for t in results]
        _sleep(LATE_WORK_S)
        if self._events:
            torch.cuda.synchronize()
        return sum(before != tensors.fingerprint(t) for before, t in zip(now, results, strict=True))

    def _left_late(self) -> int:
        """How much of what the call left in inputs and buffers has become something else since it returned."""
        if self._left is None:
            return 0
        now = tensors.flatten([self.inputs, self.owned().buffers])[1]
        others = len(now) != len(self._left.leaves) or any(a is not b for a, b in zip(now, self._left.leaves, strict=False))
        return int(others) or self._left.moved()

    def _aliases(self, results: list[torch.Tensor]) -> list[str]:
        found = []
        inputs = tensors.tensors_in(self.inputs)
        owned = self.owned()
        state = [*owned.others, *owned.buffers.values()]
        earlier = [kept for kept, _ in self._kept]
        for i, result in enumerate(results):
            found += [f"output {i} = input {k}" for k, t in enumerate(inputs) if tensors.overlap(result, t)]
            found += [f"output {i} = weight" for t in state if tensors.overlap(result, t)][:1]
            found += [f"output {i} = earlier result" for t in earlier if tensors.overlap(result, t)][:1]
            found += [f"output {i} = output {k}" for k, t in enumerate(results[:i]) if tensors.overlap(result, t)]
        return found


def _same_form(old: Any, given: tuple[dict[str, Any], Any]) -> bool:
    """Whether an input can take a new content in place; an expanded tensor cannot be written through."""
    entry, new = given
    if not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor):
        return type(old) is type(new) and bool(old == new)
    form = [list(old.shape), list(old.stride()), old.dtype]
    return form == [entry["shape"], entry["stride"], new.dtype] and 0 not in old.stride()


def _sealed(output: Any) -> Seal | None:
    try:
        return Seal(output)
    except tensors.Unsupported:
        return None  # `collect` says so


def _type_of(leaf: Any) -> str:
    """ "Tensor" for exactly torch.Tensor (a Parameter counts: it computes nothing), else the type's name."""
    if isinstance(leaf, torch.Tensor):
        return "Tensor" if type(leaf) in (torch.Tensor, torch.nn.Parameter) else type(leaf).__name__
    return type(leaf).__name__


def serve(arm: Arm, kind: str, payload: dict[str, Any], fds: list[int]) -> dict[str, Any] | None:
    """Answer the four requests of a call; None for any other kind. The results of a program that cannot cross are named."""
    if kind == "prepare":
        return arm.prepare(payload, fds[0])
    if kind == "wake":
        if arm.device == "cpu":
            wake_threads()
        return {}
    if kind == "go":
        return arm.go()
    if kind == "collect":
        try:
            return arm.collect(payload, fds[0])
        except tensors.Unsupported as error:
            return {"unsupported": str(error)}
    return None
