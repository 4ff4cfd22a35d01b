"""What the GPU's kernels of the handbook on rows, elements and launches must compute, against PyTorch in double precision."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from tests.agents.handbook_world import World, case, same


@case("coalesced-access")
def coalesced_access(w: World) -> None:
    x, partial = w.normal(1000, 300), w.unwritten(7, 300)
    w.call("coalesced_access", x, partial, 1000, 300, 7)
    same(partial.double().sum(0), x.double().sum(0), atol=1e-3)


@case("vector-loads")
def vector_loads(w: World) -> None:
    for skipped in (0, 1):
        x, out = w.normal(100_003)[skipped:], w.unwritten(100_003)[skipped:]
        w.call("vector_loads", x, out, x.numel(), 1.5, -2.0)
        same(out, x * 1.5 - 2.0)


@case("pointwise-fusion")
def pointwise_fusion(w: World) -> None:
    x, scale, shift, residual, out = w.normal(700, 333), w.normal(333), w.normal(333), w.normal(700, 333), w.unwritten(700, 333)
    w.call("pointwise_fusion", x, scale, shift, residual, out, x.numel(), 333)
    same(out, F.gelu(x.double() * scale + shift) + residual)


@case("occupancy")
def occupancy(w: World) -> None:
    x, out = w.normal(1_000_001) * 5, w.unwritten(1_000_001)
    w.call("occupancy", x, out, x.numel())
    same(out, F.silu(x.double()))


@case("bank-conflicts")
def bank_conflicts(w: World) -> None:
    x, out = w.normal(1003, 32), w.unwritten(1003)
    w.call("bank_conflicts", x, out, 1003)
    same(out, x.double().sum(1))


@case("warp-reductions")
def warp_reductions(w: World) -> None:
    for columns in (5, 32, 33, 700):
        x, out = w.normal(103, columns), w.unwritten(103)
        w.call("warp_reductions", x, out, 103, columns)
        same(out, x.double().square().sum(1))


@case("block-reductions")
def block_reductions(w: World) -> None:
    x, out = w.normal(57, 3001) - 9, w.unwritten(57)
    x[5, 77], x[6] = float("nan"), -torch.inf
    w.call("block_reductions", x, out, 57, 3001)
    same(out, x.amax(1))


@case("deterministic-sums")
def deterministic_sums(w: World) -> None:
    for n in (3, 1_234_567):
        x, out, again = w.normal(n) + 1, w.unwritten(1), w.unwritten(1)
        w.call("deterministic_sums", x, w.unwritten(1024), out, n)
        w.call("deterministic_sums", x, w.unwritten(1024), again, n)
        same(out[0], x.double().mean())
        assert torch.equal(out, again)


@case("online-softmax")
def online_softmax(w: World) -> None:
    x, out = w.normal(77, 1001) * 9, w.unwritten(77, 1001)
    x[3, :900], x[4] = -torch.inf, -torch.inf
    w.call("online_softmax", x, out, 77, 1001)
    same(out, torch.softmax(x.double(), 1))


@case("layer-norm")
def layer_norm(w: World) -> None:
    for columns in (70, 1024):
        x, residual, weight, bias = w.normal(35, columns) + 50, w.normal(35, columns), w.normal(columns), w.normal(columns)
        out = w.unwritten(35, columns)
        w.call("layer_norm", x, residual, weight, bias, out, 35, columns, 1e-5)
        same(out, F.layer_norm((x + residual).double(), (columns,), weight.double(), bias.double()), atol=1e-4)


@case("rms-norm")
def rms_norm(w: World) -> None:
    for columns in (76, 4096):
        x, weight, out = w.normal(35, columns), w.normal(columns), w.unwritten(35, columns)
        w.call("rms_norm", x, weight, out, 35, columns, 1e-6)
        same(out, x.double() * torch.rsqrt(x.double().square().mean(1, keepdim=True) + 1e-6) * weight)


@case("group-norm")
def group_norm(w: World) -> None:
    x, weight, bias, out = w.normal(3, 12, 9, 11) + 20, w.normal(12), w.normal(12), w.unwritten(3, 12, 9, 11)
    w.call("group_norm", x, weight, bias, out, 3, 4, 12, 99, 1e-5)
    same(out, F.silu(F.group_norm(x.double(), 4, weight.double(), bias.double())), atol=1e-4)


@case("batch-norm-inference")
def batch_norm_inference(w: World) -> None:
    x, mean, var, weight, bias = w.normal(3, 5, 80, 80), w.normal(5), w.normal(5).abs() + 0.1, w.normal(5), w.normal(5)
    out = w.unwritten(3, 5, 80, 80)
    w.call("batch_norm_inference", x, mean, var, weight, bias, out, 3, 5, 6400, 1e-5)
    same(out, torch.relu(F.batch_norm(*(t.double() for t in (x, mean, var, weight, bias)))))


@case("cross-entropy")
def cross_entropy(w: World) -> None:
    x, target, loss = w.normal(70, 5001) * 4, w.below(5001, 70), w.unwritten(70)
    target[7] = -100
    w.call("cross_entropy", x, target, loss, 70, 5001, -100)
    same(loss, F.cross_entropy(x.double(), target, reduction="none"))


@case("cuda-graphs")
def cuda_graphs(w: World) -> None:
    import ctypes

    x, graph = w.normal(1000), ctypes.c_void_p()
    code = w.library.cuda_graphs_capture(
        ctypes.c_void_p(x.data_ptr()), ctypes.c_int64(1000), ctypes.c_float(0.5), ctypes.c_float(1.0), 3, ctypes.byref(graph)
    )
    assert code == 0
    expected = ((x * 0.5 + 1) * 0.5 + 1) * 0.5 + 1
    w.call("cuda_graphs", graph)
    same(x, expected)


@case("launch-overhead")
def launch_overhead(w: World) -> None:
    x, w1, b1, w2, b2, out = w.normal(33, 40), w.normal(70, 40), w.normal(70), w.normal(9, 70), w.normal(9), w.unwritten(33, 9)
    w.call("launch_overhead", x, w1, b1, w2, b2, out, 33, 40, 70, 9)
    same(out, F.linear(torch.relu(F.linear(x.double(), w1.double(), b1.double())), w2.double(), b2.double()), atol=1e-3)


@case("streams-and-events")
def streams_and_events(w: World) -> None:
    x, y, one, two = w.normal(5000), w.normal(5000), w.unwritten(5000), w.unwritten(5000)
    w.call("streams_and_events", x, y, one, two, 5000)
    same(one, 2 * x)
    same(two, 2 * y)


@case("host-transfers")
def host_transfers(w: World) -> None:
    host, out = torch.randn(10_001).pin_memory(), w.unwritten(10_001)
    w.call("host_transfers", host, w.unwritten(10_001), out, 10_001)
    same(out.cpu(), host.square())


@case("no-synchronisation")
def no_synchronisation(w: World) -> None:
    for by in (1.0, 1e-6):
        x, out = w.normal(50_001) * by, w.unwritten(50_001)
        w.call("no_synchronisation", x, w.unwritten(64), out, 50_001, 2.0)
        same(out, x.double() * min(1.0, 2.0 / (x.double().norm().item() + 1e-6)))


@case("transpose-tiles")
def transpose_tiles(w: World) -> None:
    x, out = w.normal(3, 45, 70), w.unwritten(3, 70, 45)
    w.call("transpose_tiles", x, out, 3, 45, 70)
    same(out, x.transpose(1, 2))


@case("prefix-scan")
def prefix_scan(w: World) -> None:
    for columns in (3, 1024, 5001):
        x, out = w.normal(9, columns), w.unwritten(9, columns)
        w.call("prefix_scan", x, out, 9, columns)
        same(out, x.double().cumsum(1), atol=1e-3)


@case("histogram-atomics")
def histogram_atomics(w: World) -> None:
    x, counts = (w.below(120, 50_000) - 5).int(), w.unwritten(100, dtype=torch.int32)
    w.call("histogram_atomics", x, counts, 50_000, 100)
    same(counts, torch.bincount(x[(x >= 0) & (x < 100)], minlength=100))


@case("gather-embedding")
def gather_embedding(w: World) -> None:
    table, index, out = w.normal(90, 100), w.below(90, 60), w.unwritten(5, 100)
    offsets = torch.tensor([0, 7, 7, 30, 59, 60], device=w.device)
    w.call("gather_embedding", table, index, offsets, out, 5, 100)
    same(out, F.embedding_bag(index, table, offsets[:-1], mode="mean"))


@case("dropout-philox")
def dropout_philox(w: World) -> None:
    x, out, again = w.normal(400_001).abs() + 1, w.unwritten(400_001), w.unwritten(400_001)
    w.call("dropout_philox", x, out, 400_001, 0.3, 12345, 6)
    w.call("dropout_philox", x, again, 400_001, 0.3, 12345, 6)
    assert torch.equal(out, again)
    assert abs((out == 0).float().mean().item() - 0.3) < 0.005
    same(out[out != 0], x[out != 0] / 0.7)
    # Random123's known answer for key and counter of zeros begins 6627e8d5 e169c58d bc57ac4c 9b00dbd8
    ones, four = torch.ones(4, device=w.device), w.unwritten(4)
    kept = torch.tensor([0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], dtype=torch.float64, device=w.device) / 2**32
    for p in (0.41, 0.61, 0.74, 0.89):
        w.call("dropout_philox", ones, four, 4, p, 0, 0)
        assert torch.equal(four != 0, kept >= p)


@case("numerical-error")
def numerical_error(w: World) -> None:
    x, out = w.normal(9, 300_001) * 1000 + 1e6, w.unwritten(9)
    x[0, ::2] *= -1
    w.call("numerical_error", x, out, 9, 300_001)
    same(out, x.double().sum(1), rtol=1.2e-7, atol=0.0)


@case("torch-extensions")
def torch_extensions(w: World) -> None:
    x, out = w.normal(5001) * 4, w.unwritten(5001)
    w.call("torch_extensions", x, out, 5001)
    same(out, F.hardsigmoid(x))
    w.call("torch_extensions", x, out, 0)


@case("strides-and-channels-last")
def strides_and_channels_last(w: World) -> None:
    bias, rows = w.normal(30), w.normal(50, 90)
    for x in (rows[:, 7:37], rows.T[:50, :30], rows[0, :30].expand(50, 30)):
        out = w.unwritten(50, 30)
        w.call("strides_and_channels_last", x, bias, out, 50, 30, x.stride(0), x.stride(1))
        same(out, torch.relu(x + bias))


@case("register-pressure")
def register_pressure(w: World) -> None:
    x, out = w.normal(35, 301), w.unwritten(35, 6)
    w.call("register_pressure", x, out, 35, 301)
    same(out, torch.stack([x.double().pow(p).sum(1) for p in range(1, 7)], 1), atol=1e-2)


@case("instruction-throughput")
def instruction_throughput(w: World) -> None:
    for channels, pixels in ((7, 33), (64, 64), (1, 1), (3, 50_000)):
        x, scale = w.normal(5, channels, pixels), w.normal(channels)
        out = w.unwritten(5, channels, pixels)
        w.call("instruction_throughput", x, scale, out, x.numel(), channels, pixels)
        same(out, x * scale.view(-1, 1))


@case("l2-persistence")
def l2_persistence(w: World) -> None:
    table, index, out = w.normal(1000), w.below(1000, 50_000).int(), w.unwritten(50_000)
    w.call("l2_persistence", table, 1000, index, out, 50_000, 0)
    same(out, table[index.long()])
    out = w.unwritten(50_000)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.synchronize()
        w.call("l2_persistence", table, 1000, index, out, 50_000, 1)
    same(out, table[index.long()])


@case("persistent-kernels")
def persistent_kernels(w: World) -> None:
    lengths = w.below(700, 3000)
    starts = F.pad(lengths.cumsum(0), (1, 0))
    x, out = w.normal(int(starts[-1])), w.unwritten(3000)
    w.call("persistent_kernels", x, starts, out, 3000, w.unwritten(1, dtype=torch.int32))
    expected = torch.segment_reduce(x.double(), "sum", lengths=lengths, unsafe=True)
    same(out, expected, atol=1e-4)


@case("profiling-timeline")
def profiling_timeline(w: World) -> None:
    x, out = w.normal(1000), w.unwritten(1000)
    w.call("profiling_timeline", x, out, 1000)
    same(out, x + 1)


@case("profiling-counters")
def profiling_counters(w: World) -> None:
    x, out = w.normal(1001), w.unwritten(1001)
    w.call("profiling_counters", x, out, 1001, 32)
    same(out, x[torch.arange(1001, device=w.device) * 32 % 1001])


@case("scatter-segments")
def scatter_segments(w: World) -> None:
    rows, index, out = w.normal(5000, 70), w.below(90, 5000), w.normal(100, 70)
    expected = out.double().index_add(0, index, rows.double())
    order = torch.argsort(index, stable=True)
    starts = torch.searchsorted(index[order], torch.arange(101, device=w.device))
    w.call("scatter_segments", rows, order, starts, out, 100, 70)
    same(out, expected, atol=1e-3)


@case("row-selection")
def row_selection(w: World) -> None:
    for columns, k in ((1000, 8), (5, 5), (33, 1)):
        x = w.normal(41, columns)
        x[3, 2], x[4] = float("nan"), -torch.inf
        x[5, 1], x[5, 4] = 9.0, 9.0
        values, indices = w.unwritten(41, k), w.unwritten(41, k, dtype=torch.int64)
        w.call("row_selection", x, values, indices, 41, columns, k)
        expected, at = torch.sort(x, descending=True, stable=True)
        same(values, expected[:, :k], rtol=0.0, atol=0.0)
        assert torch.equal(indices, at[:, :k])


@case("concatenation")
def concatenation(w: World) -> None:
    whole, out = w.normal(50, 700), w.unwritten(50, 301)
    x = whole[:, 7 : 7 + 602]
    w.call("concatenation", x, out, 50, 301, 700)
    same(out, F.silu(x[:, :301].double()) * x[:, 301:])
