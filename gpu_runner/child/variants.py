"""Structured draws: inputs of the same shapes and dtypes with another structure than the user's generator gives.

Generators like `torch.rand` hide mistakes: on non-negative data a ReLU is the identity and half precision looks exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import tensors

OUTLIERS = 1e-3  # share of elements
OUTLIER_SCALE = 100.0


def _sign_mixed(x: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    wide = x.double()
    spread = wide.std(correction=0) if x.numel() > 1 else torch.tensor(0.0)
    return (wide - wide.mean()) / (spread if spread > 0 else 1.0)


def _heavy_tailed(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    flat = x.double().reshape(-1).clone()
    count = max(1, int(flat.numel() * OUTLIERS))
    at = torch.randint(flat.numel(), (count,), generator=generator)
    scale = flat.square().mean().sqrt().clamp_min(1e-3) * OUTLIER_SCALE
    flat[at] = scale * (2.0 * torch.randint(2, (count,), generator=generator) - 1.0).double()
    return flat.view(x.shape)


def _piecewise_constant(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Rows in another order, every second one constant."""
    rows = x.double().reshape(-1, x.shape[-1]).clone()
    rows = rows[torch.randperm(rows.shape[0], generator=generator)]
    rows[::2] = rows[::2, :1]
    return rows.reshape(x.shape)


def _small(x: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return x.double() * 1e-3


VARIANTS: dict[str, Callable[[torch.Tensor, torch.Generator], torch.Tensor]] = {
    "sign-mixed": _sign_mixed,
    "heavy-tailed": _heavy_tailed,
    "piecewise-constant": _piecewise_constant,
    "small": _small,
}


def _eligible(leaf: Any) -> bool:
    return (
        isinstance(leaf, torch.Tensor)
        and leaf.is_floating_point()
        and leaf.numel() > 0
        and leaf.dim() > 0
        and bool(torch.isfinite(leaf.float()).all())
    )


def apply(name: str, inputs: list[Any], seed: int) -> list[Any] | None:
    """The inputs with every finite floating-point tensor transformed; None when there is none."""
    generator = torch.Generator().manual_seed(seed)
    changed = False

    def transform(leaf: torch.Tensor) -> torch.Tensor:
        nonlocal changed
        if not _eligible(leaf):
            return leaf
        changed = True
        return VARIANTS[name](leaf.cpu(), generator).to(leaf.dtype).to(leaf.device)

    result = tensors.map_tensors(inputs, transform)
    return list(result) if changed else None


def halved(inputs: list[Any]) -> list[Any] | None:
    """Half of the batch; None when the inputs have no common first dimension."""
    sizes = {t.shape[0] for t in tensors.tensors_in(inputs) if t.dim() > 0}
    if len(sizes) != 1 or (size := sizes.pop()) < 2:
        return None
    return list(tensors.map_tensors(inputs, lambda t: t[: size // 2] if t.dim() > 0 else t))


def resized(inputs: list[Any], kind: str) -> tuple[list[Any], int] | None:
    """The inputs with another batch size, and the size: `one`, `odd`, or `even` (no multiple of 32).

    Smaller ones are cut from the batch. None when the inputs have no common first dimension or it leaves no such size.
    """
    sizes = {t.shape[0] for t in tensors.tensors_in(inputs) if t.dim() > 0}
    if len(sizes) != 1:
        return None
    batch = sizes.pop()
    fitting: dict[str, Any] = {
        "one": (n for n in (1,)),
        "odd": (n for n in range(batch // 2 + 1, 2, -1) if n % 2),
        "even": (n for n in range(batch - 1, 1, -1) if n % 2 == 0 and n % 32),
    }
    size = next((n for n in fitting[kind] if n < batch), None)
    if size is None:
        return None
    return list(tensors.map_tensors(inputs, lambda t: t[:size] if t.dim() > 0 else t)), size


def jittered(inputs: list[Any], seed: int) -> list[Any]:
    """Every floating-point tensor moved by at most one unit in its last place: what that changes in the results, no program
    can be blamed for."""
    generator = torch.Generator().manual_seed(seed)

    def move(t: torch.Tensor) -> torch.Tensor:
        if not t.is_floating_point():
            return t
        noise = (2.0 * torch.rand(t.shape, generator=generator, dtype=torch.float64) - 1.0) * torch.finfo(t.dtype).eps
        return (t.double() * (1.0 + noise.to(t.device))).to(t.dtype)

    return list(tensors.map_tensors(inputs, move))


def scalable(inputs: list[Any]) -> bool:
    """Whether `scaled` leaves no tensor as it is: whole numbers would come again unchanged, and be known again."""
    found = [t for t in tensors.tensors_in(inputs) if t.numel()]
    return bool(found) and all(t.is_floating_point() or t.is_complex() for t in found)


def scaled(inputs: list[Any], scale: float, seed: int) -> list[Any]:
    """Every floating-point tensor times factors in `scale`..1: content that no earlier call has seen, for two passes.

    The factor depends on the place along every dimension: the result for another multiple of the same content could be made
    from the last result (a norm's is even the same), and along a dimension without factors a sum is only multiplied.
    """
    generator = torch.Generator().manual_seed(seed)

    def factors(t: torch.Tensor, dim: int) -> torch.Tensor:
        shape = [1] * t.dim()
        shape[dim] = t.shape[dim]
        span = scale ** (1.0 / max(2, t.dim()))
        return (span + (1.0 - span) * torch.rand(shape, generator=generator)).to(t.device, t.real.dtype)

    def change(t: torch.Tensor) -> torch.Tensor:
        if not (t.is_floating_point() or t.is_complex()):
            return t
        if t.dim() == 0:
            return t * (scale + (1.0 - scale) * float(torch.rand((), generator=generator)))
        outer = factors(t, 0)
        for dim in range(1, t.dim() - 1):
            outer = outer * factors(t, dim)
        moved = t * outer
        return moved.mul_(factors(t, -1))  # in place: the pages of another result cost more than the product

    return list(tensors.map_tensors(inputs, change))
