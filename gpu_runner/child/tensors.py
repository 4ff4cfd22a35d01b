"""Values as data: nested structures of tensors and literals, written into shared memory and read back.

A *manifest* is what the processes tell one another about a value. It is JSON:

    {"tree": tree, "leaves": [leaf, …], "bytes": total}

`tree` is "*" for a leaf, `["tuple", …]`, `["list", …]`, or an object for a dict. A leaf is
`{"kind": "tensor", "dtype", "shape", "stride", "device", "offset", "nbytes"}` (sizes and strides in elements, offset and nbytes
in bytes; the bytes are the contiguous content) or `{"kind": "literal", "value": …}` with the encoding of `encode_literal`.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import zlib
from typing import Any

import torch

ALIGNMENT = 64
_AT_ONCE = getattr(mmap, "MAP_POPULATE", 0)  # all pages of a mapping, not one fault each
GUARD = 256  # bytes of a pattern before and after an input; a multiple of every alignment that a program may rely on
_PATTERN = 0xFF  # NaN in every floating-point type: what reads too far shows in its result
MAX_LEAVES = 4096
MAX_DEPTH = 32
_NAMES = (
    "float64", "float32", "float16", "bfloat16", "complex64", "complex128", "int64", "int32", "int16", "int8", "uint8",
    "uint16", "uint32", "uint64", "bool", "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in _NAMES if hasattr(torch, name)}


class Unsupported(Exception):
    """A value that cannot cross between the processes. The message is a sentence."""


def dtype_name(dtype: torch.dtype) -> str:
    """torch's spelling without the prefix."""
    return str(dtype).removeprefix("torch.")


# ---- structure -------------------------------------------------------------------------------------------------------


def flatten(value: Any) -> tuple[Any, list[Any]]:
    """(tree, leaves). Raises `Unsupported` for containers other than tuple, list and dict with string keys."""
    leaves: list[Any] = []
    return _flatten(value, leaves, 0), leaves


def _flatten(value: Any, leaves: list[Any], depth: int) -> Any:
    if depth > MAX_DEPTH or len(leaves) > MAX_LEAVES:
        raise Unsupported(f"a value nested deeper than {MAX_DEPTH} or with more than {MAX_LEAVES} parts is not supported")
    if isinstance(value, tuple | list):
        tag = "tuple" if isinstance(value, tuple) else "list"
        return [tag, *(_flatten(item, leaves, depth + 1) for item in value)]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise Unsupported("a dict with keys that are not strings is not supported")
        return {key: _flatten(item, leaves, depth + 1) for key, item in value.items()}
    leaves.append(value)
    return "*"


def unflatten(tree: Any, leaves: list[Any]) -> Any:
    """The inverse of `flatten` (named tuples come back as tuples)."""
    rest = iter(leaves)

    def build(node: Any) -> Any:
        if node == "*":
            return next(rest)
        if isinstance(node, dict):
            return {key: build(item) for key, item in node.items()}
        items = [build(item) for item in node[1:]]
        return tuple(items) if node[0] == "tuple" else items

    return build(tree)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Every tensor of a nested value, in order."""
    return [leaf for leaf in flatten(value)[1] if isinstance(leaf, torch.Tensor)]


def map_tensors(value: Any, function: Any) -> Any:
    """The same structure with `function` applied to its tensors."""
    tree, leaves = flatten(value)
    return unflatten(tree, [function(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves])


# ---- literals --------------------------------------------------------------------------------------------------------


def encode_literal(value: Any) -> Any:
    """Plain Python data as JSON; what JSON lacks is tagged. Raises `Unsupported` for anything else."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, torch.dtype):
        return {"dtype": dtype_name(value)}
    if isinstance(value, torch.Size | tuple):
        return {"tuple": [encode_literal(item) for item in value]}
    if isinstance(value, list):
        return [encode_literal(item) for item in value]
    if isinstance(value, dict):
        return {"dict": [[encode_literal(key), encode_literal(item)] for key, item in value.items()]}
    raise Unsupported(f"a value of type {type(value).__name__} is not plain data")


def decode_literal(value: Any) -> Any:
    """The inverse of `encode_literal`."""
    if isinstance(value, list):
        return [decode_literal(item) for item in value]
    if isinstance(value, dict):
        if "float" in value:
            return float(value["float"])
        if "dtype" in value:
            return DTYPES[value["dtype"]]
        if "tuple" in value:
            return tuple(decode_literal(item) for item in value["tuple"])
        return {decode_literal(key): decode_literal(item) for key, item in value["dict"]}
    return value


# ---- shared memory ---------------------------------------------------------------------------------------------------


def describe(tensor: torch.Tensor) -> dict[str, Any]:
    """Shape, stride and dtype of a plain strided tensor. Raises `Unsupported` for sparse, quantized and exotic ones."""
    if tensor.layout != torch.strided or tensor.is_quantized or getattr(tensor, "is_nested", False):
        raise Unsupported(f"a tensor with the layout {tensor.layout} (sparse, quantized or nested) is not supported")
    name = dtype_name(tensor.dtype)
    if name not in DTYPES:
        raise Unsupported(f"a tensor of dtype {name} is not supported")
    if tensor.device.type == "meta":
        raise Unsupported("a tensor on the meta device has no content")
    form = {"kind": "tensor", "dtype": name, "shape": list(tensor.shape), "stride": list(tensor.stride())}
    return form | {"device": tensor.device.type}


def write(value: Any, fd: int, start: int = 0) -> dict[str, Any]:
    """Put a nested value into the shared memory `fd`, from byte `start` on. Returns its manifest.

    Raises `Unsupported` when a leaf cannot cross or the memory (whose size the parent chose) is too small.
    """
    tree, leaves = flatten(value)
    described, offset = [], start
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            described.append({"kind": "literal", "value": encode_literal(leaf)})
            continue
        entry = describe(leaf)
        offset = -(-offset // ALIGNMENT) * ALIGNMENT
        entry |= {"offset": offset, "nbytes": leaf.numel() * leaf.element_size()}
        offset += entry["nbytes"]
        described.append(entry)
    if offset > start:
        _fill(fd, offset, [(entry, leaf) for entry, leaf in zip(described, leaves, strict=True) if entry["kind"] == "tensor"])
    return {"tree": tree, "leaves": described, "bytes": offset}


def _fill(fd: int, size: int, entries: list[tuple[dict[str, Any], torch.Tensor]]) -> None:
    room = os.fstat(fd).st_size
    if size > room:
        raise Unsupported(f"the values take {size / 2**20:.0f} MiB, more than the {room / 2**20:.0f} MiB of this run's limit")
    memory = None
    for entry, tensor in entries:
        plain = tensor.detach().resolve_conj().resolve_neg()
        if entry["nbytes"] and not _written(fd, entry["offset"], plain):
            memory = memory or mmap.mmap(fd, size)
            window = torch.frombuffer(memory, dtype=torch.uint8, count=entry["nbytes"], offset=entry["offset"])
            window.view(DTYPES[entry["dtype"]]).view(entry["shape"]).copy_(plain)


def _written(fd: int, offset: int, tensor: torch.Tensor) -> bool:
    """Whether it could be written as a file is: new pages then cost half of what a fault for each costs."""
    size = tensor.numel() * tensor.element_size()
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        return False
    left = memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())).cast("B")
    try:
        while left:
            done = os.pwrite(fd, left, offset)
            left, offset = left[done:], offset + done
    except OSError:
        return False  # beyond the size of a file that this process may write, which does not hold for a mapping
    return True


def read(manifest: dict[str, Any], fd: int, device: str = "cpu") -> Any:
    """The value behind a manifest, as private copies on `device`. Views get the strides they had."""
    return copies(manifest, view(manifest, fd), device)


def copies(manifest: dict[str, Any], leaves: list[Any], device: str = "cpu") -> Any:
    """The same of what `view` gave."""
    private = [
        _restride(leaf, entry["stride"], device) if isinstance(leaf, torch.Tensor) else leaf
        for entry, leaf in zip(manifest["leaves"], leaves, strict=True)
    ]
    return unflatten(manifest["tree"], private)


def view(manifest: dict[str, Any], fd: int) -> list[Any]:
    """The leaves without a copy: read-only windows onto the shared memory, contiguous."""
    size = manifest["bytes"]
    # Private, though nothing is written: older kernels refuse a shared mapping of sealed memory, even to read.
    memory = mmap.mmap(fd, size, mmap.MAP_PRIVATE | _AT_ONCE, mmap.PROT_READ) if size else None
    leaves = []
    for entry in manifest["leaves"]:
        if entry["kind"] == "literal":
            leaves.append(decode_literal(entry["value"]))
            continue
        dtype, shape = DTYPES[entry["dtype"]], entry["shape"]
        if not entry["nbytes"]:
            leaves.append(torch.empty(shape, dtype=dtype))
            continue
        if math.prod(shape) * dtype.itemsize != entry["nbytes"] or entry["offset"] % ALIGNMENT:
            raise Unsupported("a manifest does not match its memory")
        window = torch.frombuffer(memory, dtype=torch.uint8, count=entry["nbytes"], offset=entry["offset"])
        leaves.append(window.view(dtype).view(shape))
    return leaves


def _restride(content: torch.Tensor, stride: list[int], device: str) -> torch.Tensor:
    """A private copy with the given strides. Expanded dimensions (stride 0) are stored once, as they were."""
    shape = list(content.shape)
    base = content
    for dim, (size, step) in enumerate(zip(shape, stride, strict=True)):
        if step == 0 and size > 1:
            base = base.narrow(dim, 0, 1)
    try:
        private = copy(_guarded(base.shape, stride, content.dtype, device), base)
    except RuntimeError:  # overlapping in some other way (unfold, as_strided): the content matters more than the trick
        return content.to(device, copy=True)
    return private.expand(shape)


def copy(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """`target` with the content of `source`, of the same shape and dtype.

    Where both are plain runs of bytes no thread of OpenMP is woken: it would spin for milliseconds beside what comes next.
    """
    plain = target.device.type == source.device.type == "cpu" and target.is_contiguous() and source.is_contiguous()
    if not plain or target.dtype != source.dtype or target.shape != source.shape:
        return target.copy_(source)
    ctypes.memmove(target.data_ptr(), source.data_ptr(), target.numel() * target.element_size())
    return target


def _guarded(shape: Any, stride: list[int], dtype: torch.dtype, device: str) -> torch.Tensor:
    """Uninitialised memory of that form between two guards."""
    if 0 in shape:
        return torch.empty_strided(shape, stride, dtype=dtype, device=device)
    span = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    block = torch.empty(span * dtype.itemsize + 2 * GUARD, dtype=torch.uint8, device=device)
    block[:GUARD], block[-GUARD:] = _PATTERN, _PATTERN
    return block.view(dtype).as_strided(shape, stride, GUARD // dtype.itemsize)


def guard_changed(tensor: torch.Tensor) -> int:
    """How many bytes somebody wrote right before or after an input that `read` made."""
    if tensor.storage_offset() * tensor.element_size() != GUARD:
        return 0  # it has no guards
    block = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
    return int((block[:GUARD] != _PATTERN).sum()) + int((block[-GUARD:] != _PATTERN).sum())


# ---- identity --------------------------------------------------------------------------------------------------------


def fingerprint(tensor: torch.Tensor) -> int:
    """A checksum of the content (CRC-32 of the contiguous bytes). Detects change, proves nothing against forgery."""
    if tensor.numel() == 0:
        return 0
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    size = plain.numel() * plain.element_size()
    return zlib.crc32(memoryview((ctypes.c_char * size).from_address(plain.data_ptr())))


def memory_format(shape: list[int], stride: list[int]) -> str:
    """ "contiguous", "channels last", or the strides in elements; of dimensions of one element none counts."""
    rank = len(shape)
    orders = {"contiguous": [*range(rank)]} | ({"channels last": [0, *range(2, rank), 1]} if rank in (4, 5) else {})
    for name, order in orders.items():
        step, fits = 1, True
        for dim in reversed(order):
            fits, step = fits and (shape[dim] == 1 or stride[dim] == step), step * shape[dim]
        if fits or 0 in shape:
            return name
    return f"strides {list(stride)}"


def storage_range(tensor: torch.Tensor) -> tuple[str, int, int]:
    """(device, first byte, one past the last byte) that the tensor's elements span."""
    if tensor.numel() == 0:
        return str(tensor.device), 0, 0
    first = tensor.data_ptr()
    last = first + sum((size - 1) * abs(step) for size, step in zip(tensor.shape, tensor.stride(), strict=True)) * (
        tensor.element_size()
    )
    return str(tensor.device), first, last + tensor.element_size()


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors share an element; parts of one matrix, column beside column, do not."""
    device_a, first_a, end_a = storage_range(a)
    device_b, first_b, end_b = storage_range(b)
    if device_a != device_b or first_a >= end_b or first_b >= end_a:
        return False
    size, first = a.element_size(), min(first_a, first_b)
    if b.element_size() != size or (first_a - first_b) % size:
        return True
    taken = torch.zeros((max(end_a, end_b) - first) // size, dtype=torch.bool)
    taken.as_strided(a.shape, a.stride(), (first_a - first) // size).fill_(True)
    return bool(taken.as_strided(b.shape, b.stride(), (first_b - first) // size).any())
