"""What the processor's kernels of the handbook must compute, against PyTorch in double precision."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from tests.agents.handbook_world import World, case, same


@case("cpu-simd-loops")
def simd_loops(w: World) -> None:
    x, scale, shift, residual, out = w.normal(300, 131), w.normal(131), w.normal(131), w.normal(300, 131), w.unwritten(300, 131)
    x[3, 5] = float("nan")
    w.call("cpu_simd_loops", x, scale, shift, residual, out, 300, 131)
    same(out, torch.relu(x * scale + shift) + residual)


@case("cpu-vector-exp")
def vector_exp(w: World) -> None:
    x = torch.cat([w.normal(20_000) * 8, torch.tensor([0.0, -200.0, 200.0, float("nan"), -87.4, 88.0, 1e-8])])
    out = w.unwritten(x.numel())
    w.call("cpu_vector_exp", x, out, x.numel())
    same(out, F.silu(x.double()), rtol=1e-6, atol=1e-7)


@case("cpu-avx512")
def avx512(w: World) -> None:
    weight, x, out = w.normal(37, 203), w.normal(203), w.unwritten(37)
    w.call("cpu_avx512", weight, x, out, 37, 203)
    same(out, weight.double() @ x.double())


@case("cpu-matrix-product")
def matrix_product(w: World) -> None:
    a, b, c = w.normal(66, 531), w.normal(531, 48), w.unwritten(66, 48)
    w.call("cpu_matrix_product", a, b, c, 66, 48, 531)
    same(c, a.double() @ b.double(), atol=1e-4)


@case("cpu-false-sharing")
def false_sharing(w: World) -> None:
    x, counts = w.below(70, 5000) - 3, w.unwritten(50, dtype=torch.int64)
    w.call("cpu_false_sharing", x, counts, 5000, 50)
    same(counts, torch.bincount(x[(x >= 0) & (x < 50)], minlength=50))


@case("cpu-streaming-stores")
def streaming_stores(w: World) -> None:
    x, whole = w.normal(200_003), w.unwritten(200_004)
    w.call("cpu_streaming_stores", x, whole[1:], 200_003, 1.5)
    same(whole[1:], x * 1.5)
    assert whole[0].isnan()


@case("cpu-numa")
def numa(w: World) -> None:
    for n in (10_001, 7):
        x, y, out, total = w.normal(n), w.normal(n), w.unwritten(n), w.unwritten(1)
        w.call("cpu_numa", x, y, out, total, n, 0.5)
        same(out, x + 0.5 * y)
        same(total[0], (x + 0.5 * y).double().sum(), atol=1e-4)


@case("cpu-one-call")
def one_call(w: World) -> None:
    x, w1, b1, w2, b2, out = w.normal(33, 40), w.normal(70, 40), w.normal(70), w.normal(9, 70), w.normal(9), w.unwritten(33, 9)
    w.call("cpu_one_call", x, w1, b1, w2, b2, out, 33, 40, 70, 9)
    same(out, F.linear(torch.relu(F.linear(x.double(), w1.double(), b1.double())), w2.double(), b2.double()), atol=1e-3)


@case("cpu-reductions")
def reductions(w: World) -> None:
    for n in (100_003, 31):
        x, out = w.normal(n) + 3, w.unwritten(1)
        w.call("cpu_reductions", x, out, n)
        same(out[0], x.double().mean(), rtol=1e-6)


@case("cpu-softmax")
def softmax(w: World) -> None:
    x, out = w.normal(60, 301) * 5, w.unwritten(60, 301)
    x[2, :200], x[3] = -torch.inf, -torch.inf
    w.call("cpu_softmax", x, out, 60, 301, 0.5)
    same(out, torch.softmax(x.double() * 0.5, -1), rtol=2e-6, atol=1e-7)


@case("cpu-normalisation")
def normalisation(w: World) -> None:
    x, residual, weight, bias, out = (
        w.normal(50, 333) + 100,
        w.normal(50, 333),
        w.normal(333),
        w.normal(333),
        w.unwritten(50, 333),
    )
    w.call("cpu_normalisation", x, residual, weight, bias, out, 50, 333, 1e-5)
    same(out, F.layer_norm((x + residual).double(), (333,), weight.double(), bias.double()), rtol=1e-3, atol=1e-4)


@case("cpu-convolution")
def convolution(w: World) -> None:
    for size in (3, 5):
        x, weight, scale, shift = w.normal(2, 6, 13, 19), w.normal(6, 1, size, size), w.normal(6), w.normal(6)
        out = w.unwritten(2, 6, 13, 19)
        w.call("cpu_convolution", x, weight, scale, shift, out, 2, 6, 13, 19, size)
        plain = F.conv2d(x.double(), weight.double(), padding=size // 2, groups=6)
        same(out, torch.relu(plain * scale.view(-1, 1, 1) + shift.view(-1, 1, 1)))


@case("cpu-transpose")
def transpose(w: World) -> None:
    x, out = w.normal(3, 45, 70), w.unwritten(3, 70, 45)
    w.call("cpu_transpose", x, out, 3, 45, 70)
    same(out, x.transpose(1, 2))


@case("cpu-gather")
def gather(w: World) -> None:
    table, index, out = w.normal(90, 100), w.below(90, 60), w.unwritten(5, 100)
    offsets = torch.tensor([0, 7, 7, 30, 59, 60])
    w.call("cpu_gather", table, index, offsets, out, 5, 100)
    same(out, F.embedding_bag(index, table, offsets[:-1], mode="mean"))


@case("cpu-recurrent")
def recurrent(w: World) -> None:
    ahead, weight, h = w.normal(6, 4, 32), w.normal(32, 32) * 0.2, w.normal(4, 32)
    expected, state = [], h.double()
    for step in ahead.double():
        state = torch.tanh(step + state @ weight.double().T)
        expected.append(state)
    out = w.unwritten(6, 4, 32)
    w.call("cpu_recurrent", ahead, weight, h, w.unwritten(4, 32), out, 6, 4, 32)
    same(out, torch.stack(expected))
