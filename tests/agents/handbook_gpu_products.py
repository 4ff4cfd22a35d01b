"""What the GPU's kernels of the handbook on products, images and copies must compute, against PyTorch in double precision."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from tests.agents.handbook_world import World, case, same

HALF = torch.float16


@case("tiled-matrix-product")
def tiled_matrix_product(w: World) -> None:
    a, b, c = w.normal(130, 77), w.normal(77, 201), w.unwritten(130, 201)
    w.call("tiled_matrix_product", a, b, c, 130, 201, 77)
    same(c, a.double() @ b.double())


@case("matrix-vector")
def matrix_vector(w: World) -> None:
    weight, x, bias, out = w.normal(301, 1204), w.normal(1204), w.normal(301), w.unwritten(301)
    w.call("matrix_vector", weight, x, bias, out, 301, 1204)
    same(out, torch.relu(weight.double() @ x.double() + bias), atol=1e-4)


@case("tensor-cores-mma")
def tensor_cores_mma(w: World) -> None:
    a, b, c = w.normal(48, 80, dtype=HALF), w.normal(24, 80, dtype=HALF), w.unwritten(48, 24)
    w.call("tensor_cores_mma", a, b, c, 48, 24, 80)
    same(c, a.double() @ b.double().T, atol=1e-3)


@case("split-tensor-core-products")
def split_tensor_core_products(w: World) -> None:
    a, b, c = w.normal(48, 512), w.normal(24, 512), w.unwritten(48, 24)
    w.call("split_tensor_core_products", a, b, c, 48, 24, 512)
    same(c, a.double() @ b.double().T, rtol=2e-6, atol=1e-4)


@case("cp-async-pipeline")
def cp_async_pipeline(w: World) -> None:
    for columns in (12, 512, 5004):
        x, y, out = w.normal(19, columns), w.normal(19, columns), w.unwritten(19)
        w.call("cp_async_pipeline", x, y, out, 19, columns)
        same(out, (x.double() * y).sum(1), atol=1e-4)


@case("split-k")
def split_k(w: World) -> None:
    a, b, bias, c = w.normal(20, 5001), w.normal(30, 5001), w.normal(30), w.unwritten(20, 30)
    w.call("split_k", a, b, bias, w.unwritten(9, 20, 30), c, 20, 30, 5001, 9)
    same(c, a.double() @ b.double().T + bias, atol=1e-3)


@case("epilogue-fusion")
def epilogue_fusion(w: World) -> None:
    x, weight, bias, residual, c = w.normal(45, 70), w.normal(33, 70), w.normal(33), w.normal(45, 33), w.unwritten(45, 33)
    w.call("epilogue_fusion", x, weight, bias, residual, c, 45, 33, 70)
    same(c, F.gelu(F.linear(x.double(), weight.double(), bias.double())) + residual)


@case("implicit-gemm-convolution")
def implicit_gemm_convolution(w: World) -> None:
    for size, stride, padding in ((3, 1, 1), (5, 2, 1), (1, 1, 0)):
        x, weight, bias = w.normal(2, 7, 17, 21), w.normal(19, 7, size, size), w.normal(19)
        expected = torch.relu(F.conv2d(x.double(), weight.double(), bias.double(), stride, padding))
        out = w.unwritten(*expected.shape)
        w.call("implicit_gemm_convolution", x, weight, bias, out, 2, 7, 17, 21, 19, size, stride, padding)
        same(out, expected, atol=1e-4)


@case("depthwise-convolution")
def depthwise_convolution(w: World) -> None:
    x, weight, bias, out = w.normal(2, 6, 19, 45), w.normal(6, 1, 3, 3), w.normal(6), w.unwritten(2, 6, 19, 45)
    w.call("depthwise_convolution", x, weight, bias, out, 2, 6, 19, 45)
    same(out, torch.relu(F.conv2d(x.double(), weight.double(), bias.double(), padding=1, groups=6)))


@case("pointwise-convolution")
def pointwise_convolution(w: World) -> None:
    x, weight, bias, out = w.normal(2, 30, 13, 15), w.normal(21, 30, 1, 1), w.normal(21), w.unwritten(2, 21, 13, 15)
    w.call("pointwise_convolution", x, weight, bias, out, 2, 30, 21, 195)
    same(out, F.silu(F.conv2d(x.double(), weight.double(), bias.double())))


@case("pooling")
def pooling(w: World) -> None:
    x, bias, out = w.normal(3, 5, 14, 22), w.normal(5), w.unwritten(3, 5, 7, 11)
    x[0, 0, 0, 1] = float("nan")
    w.call("pooling", x, bias, out, 3, 5, 14, 22)
    same(out, F.max_pool2d(torch.relu(x + bias.view(-1, 1, 1)), 2))


@case("flash-attention")
def flash_attention(w: World) -> None:
    for length, causal in ((100, 0), (100, 1), (64, 1)):
        q, k, v, out = (*(w.normal(3, length, 64) for _ in range(3)), w.unwritten(3, length, 64))
        w.call("flash_attention", q, k, v, out, 3, length, 0.125, causal)
        same(out, F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=bool(causal)))


@case("recurrent-cells")
def recurrent_cells(w: World) -> None:
    cell = torch.nn.GRUCell(12, 20, device=w.device, dtype=torch.float64)
    x, h, out = w.normal(7, 12).double(), w.normal(7, 20), w.unwritten(7, 20)
    ahead = F.linear(x, cell.weight_ih, cell.bias_ih).float()
    back = F.linear(h.double(), cell.weight_hh, cell.bias_hh).float()
    w.call("recurrent_cells", ahead, back, h, out, 7, 20)
    same(out, cell(x, h.double()).detach())


@case("bulk-copies")
def bulk_copies(w: World) -> None:
    for columns in (12, 2048, 4096, 20_004):
        x, out = w.normal(19, columns), w.unwritten(19)
        w.call("bulk_copies", x, out, 19, columns)
        same(out, x.double().sum(1), atol=1e-3)


@case("tensor-maps")
def tensor_maps(w: World) -> None:
    x, out = w.normal(50, 100), w.unwritten(50, 100)
    w.call("tensor_maps", x, out, 50, 100)
    wide = F.pad(x, (0, 1, 0, 1))
    same(out, x + wide[:50, 1:] + wide[1:, :100])


@case("block-clusters")
def block_clusters(w: World) -> None:
    for columns in (3, 100_003):
        x, out = w.normal(7, columns), w.unwritten(7, columns)
        w.call("block_clusters", x, out, 7, columns)
        same(out, F.normalize(x.double(), dim=1))


@case("dependent-launch")
def dependent_launch(w: World) -> None:
    x, weight, out = w.normal(5000), w.normal(5000), w.unwritten(5000)
    for _ in range(3):
        w.call("dependent_launch", x, w.unwritten(5000), weight, out, 5000)
        same(out, 0.5 * x * weight)


@case("warpgroup-products")
def warpgroup_products(w: World) -> None:
    a, b, c = w.normal(128, 80, dtype=HALF), w.normal(24, 80, dtype=HALF), w.unwritten(128, 24)
    w.call("warpgroup_products", a, b, c, 128, 24, 80)
    same(c, a.double() @ b.double().T, atol=1e-3)
