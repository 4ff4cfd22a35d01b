"""The catalogue: what may follow on a tensor of a shape, how it is written, and the shape that it leaves.

Shapes: rows (batch, features), sequences (batch, steps, features), images (batch, channels, height, width). Each operator is a
function of a draw and a shape that gives a `Step`, or None where it does not apply.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """`line`: the expression in `forward`, over `x` (what came before), `x0` (the input) and `self.m` (its module or
    parameter); `member`: how that is made in `__init__`, empty where there is none; `out`: the shape afterwards."""

    name: str
    line: str
    out: Shape
    member: str = ""


Operator = Callable[[random.Random, Shape], "Step | None"]


def _pointwise(name: str, line: str) -> Operator:
    return lambda draw, shape: Step(name, line, shape)


def _wide(shape: Shape) -> int:
    """Channels of an image, features of anything else."""
    return shape[1] if len(shape) == 4 else shape[-1]


def _clamp(draw: random.Random, shape: Shape) -> Step:
    low, high = -draw.choice((0.5, 1.0, 2.0)), draw.choice((0.75, 1.5, 3.0))
    return Step("clamp", f"torch.clamp(x, {low}, {high})", shape)


def _scaled(draw: random.Random, shape: Shape) -> Step:
    tail = ", 1, 1" if len(shape) == 4 else ""
    return Step("scale", "x * self.m", shape, f"nn.Parameter(torch.rand({_wide(shape)}{tail}) + 0.5)")


def _shifted(draw: random.Random, shape: Shape) -> Step:
    tail = ", 1, 1" if len(shape) == 4 else ""
    return Step("shift", "x + self.m", shape, f"nn.Parameter(torch.randn({_wide(shape)}{tail}) * 0.1)")


def _residual(draw: random.Random, shape: Shape) -> Step:
    return Step("residual", "x + x0", shape)


def _linear(draw: random.Random, shape: Shape) -> Step | None:
    if len(shape) == 4 or not 8 <= shape[-1] <= 4096:
        return None
    out = max(8, int(shape[-1] * draw.choice((0.5, 1, 1, 2))))
    bias = draw.choice(("", "", ", bias=False"))
    return Step("linear", "self.m(x)", (*shape[:-1], out), f"nn.Linear({shape[-1]}, {out}{bias})")


def _gated(draw: random.Random, shape: Shape) -> Step | None:
    if len(shape) == 4 or not 8 <= shape[-1] <= 2048:
        return None
    return Step("gate", "x * torch.sigmoid(self.m(x))", shape, f"nn.Linear({shape[-1]}, {shape[-1]})")


def _layer_norm(draw: random.Random, shape: Shape) -> Step | None:
    return None if len(shape) == 4 or shape[-1] < 8 else Step("layer norm", "self.m(x)", shape, f"nn.LayerNorm({shape[-1]})")


def _rms_norm(draw: random.Random, shape: Shape) -> Step | None:
    if len(shape) == 4 or shape[-1] < 8:
        return None
    return Step("rms norm", "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)", shape)


def _softmax(draw: random.Random, shape: Shape) -> Step | None:
    dim = 1 if len(shape) == 4 else -1
    return None if _wide(shape) < 8 else Step("softmax", f"torch.softmax(x, dim={dim})", shape)


def _log_softmax(draw: random.Random, shape: Shape) -> Step | None:
    dim = 1 if len(shape) == 4 else -1
    return None if _wide(shape) < 8 else Step("log softmax", f"F.log_softmax(x, dim={dim})", shape)


def _glu(draw: random.Random, shape: Shape) -> Step | None:
    wide = _wide(shape)
    if wide % 2 or wide < 16:
        return None
    dim = 1 if len(shape) == 4 else -1
    out = (shape[0], wide // 2, *shape[2:]) if len(shape) == 4 else (*shape[:-1], wide // 2)
    return Step("gated linear unit", f"F.glu(x, dim={dim})", out)


def _cumulative(draw: random.Random, shape: Shape) -> Step | None:
    return None if len(shape) == 4 else Step("cumulative sum", f"torch.cumsum(x, dim={len(shape) - 1})", shape)


def _rolled(draw: random.Random, shape: Shape) -> Step:
    return Step("roll", f"torch.roll(x, shifts={draw.choice((1, 2, 5))}, dims=-1)", shape)


def _reduced(draw: random.Random, shape: Shape) -> Step | None:
    if len(shape) == 4:
        return None
    how = draw.choice(("x.mean(-1)", "x.amax(-1)", "torch.logsumexp(x, dim=-1)", "x.sum(-1)", "x.var(-1)"))
    return None if shape[-1] < 8 else Step("reduction", how, shape[:-1])


def _convolution(draw: random.Random, shape: Shape) -> Step | None:
    if len(shape) != 4 or shape[2] < 7:
        return None
    size, stride = draw.choice((1, 3, 3, 5)), draw.choice((1, 1, 2))
    out = max(8, min(256, int(shape[1] * draw.choice((0.5, 1, 1, 2)))))
    side = (shape[2] - 1) // stride + 1
    made = f"nn.Conv2d({shape[1]}, {out}, {size}, stride={stride}, padding={size // 2})"
    return Step("convolution", "self.m(x)", (shape[0], out, side, side), made)


def _depthwise(draw: random.Random, shape: Shape) -> Step | None:
    if len(shape) != 4 or shape[2] < 7:
        return None
    wide = shape[1]
    return Step("depthwise convolution", "self.m(x)", shape, f"nn.Conv2d({wide}, {wide}, 3, padding=1, groups={wide})")


def _batch_norm(draw: random.Random, shape: Shape) -> Step | None:
    return Step("batch norm", "self.m(x)", shape, f"nn.BatchNorm2d({shape[1]})") if len(shape) == 4 else None


def _group_norm(draw: random.Random, shape: Shape) -> Step | None:
    if len(shape) != 4 or shape[1] % 8:
        return None
    return Step("group norm", "self.m(x)", shape, f"nn.GroupNorm({draw.choice((2, 4, 8))}, {shape[1]})")


def _pooled(draw: random.Random, shape: Shape) -> Step | None:
    if len(shape) != 4 or shape[2] < 8:
        return None
    kind = draw.choice(("max_pool2d", "avg_pool2d"))
    return Step("pooling", f"F.{kind}(x, 2)", (*shape[:2], shape[2] // 2, shape[3] // 2))


def _averaged(draw: random.Random, shape: Shape) -> Step | None:
    return Step("global average", "x.mean((2, 3))", shape[:2]) if len(shape) == 4 and shape[1] >= 8 else None


def _shuffled(draw: random.Random, shape: Shape) -> Step | None:
    if len(shape) != 4 or shape[1] % 4 or shape[1] < 32:
        return None
    return Step("pixel shuffle", "F.pixel_shuffle(x, 2)", (shape[0], shape[1] // 4, shape[2] * 2, shape[3] * 2))


def _upsampled(draw: random.Random, shape: Shape) -> Step | None:
    if len(shape) != 4 or shape[2] > 32:
        return None
    out = (*shape[:2], shape[2] * 2, shape[3] * 2)
    return Step("upsampling", 'F.interpolate(x, scale_factor=2.0, mode="nearest")', out)


def _attention(draw: random.Random, shape: Shape) -> Step | None:
    if len(shape) != 3 or not 16 <= shape[-1] <= 512 or shape[1] > 1024:
        return None
    causal = draw.choice(("", ", is_causal=True"))
    line = f"F.scaled_dot_product_attention(*self.m(x).chunk(3, dim=-1){causal})"
    return Step("attention", line, shape, f"nn.Linear({shape[-1]}, {3 * shape[-1]})")


def _scores(draw: random.Random, shape: Shape) -> Step | None:
    if len(shape) != 3 or shape[1] > 512:
        return None
    return Step("scores", f"x @ x.transpose(1, 2) / {shape[-1] ** 0.5:.4f}", (shape[0], shape[1], shape[1]))


def _over_steps(draw: random.Random, shape: Shape) -> Step | None:
    how = draw.choice(("x.mean(1)", "x.amax(1)"))
    return Step("pooling of steps", how, (shape[0], shape[2])) if len(shape) == 3 else None


OPERATORS: tuple[Operator, ...] = (
    _pointwise("gelu", "F.gelu(x)"),
    _pointwise("silu", "F.silu(x)"),
    _pointwise("tanh", "torch.tanh(x)"),
    _pointwise("mish", "F.mish(x)"),
    _pointwise("hardswish", "F.hardswish(x)"),
    _pointwise("softplus", "F.softplus(x)"),
    _pointwise("elu", "F.elu(x)"),
    _pointwise("leaky relu", "F.leaky_relu(x, 0.1)"),
    _pointwise("square root", "torch.sqrt(torch.abs(x) + 1e-3)"),
    _pointwise("sine", "x * torch.sin(x)"),
    _clamp, _scaled, _shifted, _residual, _linear, _linear, _gated, _layer_norm, _rms_norm, _softmax, _log_softmax, _glu,
    _cumulative, _rolled, _reduced, _convolution, _convolution, _depthwise, _batch_norm, _group_norm, _pooled, _averaged,
    _shuffled, _upsampled, _attention, _scores, _over_steps,
)  # fmt: skip
