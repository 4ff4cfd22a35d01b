"""What each idle stretch of a GPU is charged to, by the call that ends it."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runner.profile import read_profile
from tests.gpu_runner.profile_files import busy_trace, event, iteration, trace, write

US = 1000


def read(path, value, **options):
    return read_profile([write(path, value)], **options)


def test_many_short_kernels_with_gaps_are_launch_bound(tmp_path):
    found = read(tmp_path / "t.json", busy_trace(kernels=25, gpu_us=5))
    assert found["verdict"]["class"] == "launch-bound"
    assert {fact["metric"] for fact in found["verdict"]["evidence"]} == {
        "idle_host_pct", "median_kernel_ns", "kernels_per_iteration",
    }  # fmt: skip
    assert found["advice"][0]["id"] == "fuse"
    assert found["advice"][0]["kind"] == "fuse"
    share = found["verdict"]["share_pct"] / 100
    assert found["advice"][0]["predicted_at_most"] == pytest.approx(1 / (1 - share))


def test_a_busy_gpu_is_gpu_bound_and_the_largest_kernel_is_named(tmp_path):
    rows = [row for n in range(12) for row in iteration(1000 + 400 * n, n, gpu_us=130)]
    found = read(tmp_path / "t.json", trace(rows))
    assert [v["class"] for v in found["verdicts"]] == ["gpu-bound"]
    assert "add takes" in found["verdict"]["sentence"]
    assert found["verdict"]["ceiling"] == 1.0  # being busy is nothing that could go


def test_an_asynchronous_copy_from_pageable_memory_blocks_and_what_follows_it_waited_for_it(tmp_path):
    rows = []
    for n in range(10):
        at, corr = 1000 + 1000 * n, 100 + 2 * n
        rows += [
            event("user_annotation", "stitchweb_iter", at, 900),
            event("cuda_runtime", "cudaLaunchKernel", at + 10, 5, correlation=corr),
            event("kernel", "k()", at + 20, 100, stream=7, correlation=corr),
            event("cuda_runtime", "cudaMemcpyAsync", at + 30, 120, correlation=corr + 1),  # .item()
            event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", at + 121, 10, stream=7, correlation=corr + 1, bytes=4),
        ]
    found = read(tmp_path / "t.json", trace(rows))
    causes = found["gpu"]["idle_by_cause_ns"]
    assert causes["sync"] == 9 * (1000 - 131 + 20) * US
    assert causes["switch"] == 10 * US
    assert found["verdict"]["class"] == "sync-bound"


def test_a_launch_before_the_gap_means_another_stream_was_waited_for(tmp_path):
    rows = []
    for n in range(10):
        at = 1000 + 1000 * n
        rows += [
            event("user_annotation", "stitchweb_iter", at, 1000),
            event("cuda_runtime", "cudaLaunchKernel", at, 5, correlation=10 + 2 * n),
            event("cuda_runtime", "cudaLaunchKernel", at + 6, 5, correlation=11 + 2 * n),
            event("kernel", "one()", at + 10, 300, stream=7, correlation=10 + 2 * n),
            event("kernel", "two()", at + 700, 300, stream=8, correlation=11 + 2 * n),
        ]
    found = read(tmp_path / "t.json", trace(rows))
    assert found["gpu"]["idle_by_cause_ns"]["dependency"] == 10 * 390 * US
    assert found["verdict"]["class"] == "dependency-bound"
    assert found["gpu"]["stream_count"] == 2


def test_a_launch_that_fills_the_gap_is_its_cause(tmp_path):
    rows = []
    for n in range(10):
        at = 1000 + 1000 * n
        rows += [
            event("user_annotation", "stitchweb_iter", at, 1000),
            event("cuda_runtime", "cudaLaunchKernel", at + 10, 380, correlation=10 + n),
            event("kernel", "one()", at + 400, 600, stream=7, correlation=10 + n),
        ]
    assert read(tmp_path / "t.json", trace(rows))["gpu"]["idle_by_cause_ns"]["launch"] == 10 * 400 * US


def test_time_in_launch_calls_is_no_overhead_while_the_gpu_is_busy(tmp_path):
    """A full queue makes launches block: they cover the wall time, and the GPU is never idle."""
    rows = [event("user_annotation", "stitchweb_iter", 1000 + 1000 * n, 1000) for n in range(10)]
    for n in range(100):
        rows.append(event("cuda_runtime", "cudaLaunchKernel", 1000 + 100 * n, 99, correlation=1 + n))
        rows.append(event("kernel", "k()", 1050 + 100 * n, 100, stream=7, correlation=1 + n))
    found = read(tmp_path / "t.json", trace(rows))
    assert [v["class"] for v in found["verdicts"]] == ["gpu-bound"]


def launches(every: float, took: float, delay: float) -> dict[str, Any]:
    """Forwards of 30 kernels of `took` µs, launched each `every` µs; a free GPU begins one `delay` µs after its launch."""
    rows, free = [], 0.0
    for n in range(20 * 30):
        at = 1000 + every * n
        free = max(free, at + 2 + delay)
        if n % 30 == 0:
            rows.append(event("user_annotation", "stitchweb_iter", at, 30 * every))
        rows.append(event("cuda_runtime", "cudaLaunchKernel", at, 2, correlation=n + 1))
        rows.append(event("kernel", "k()", round(free, 3), took, stream=7, correlation=n + 1))
        free += took + (0.0 if every > took else 0.8)
    return trace(rows)


@pytest.mark.parametrize(
    ("every", "took", "delay", "wanted", "cause"),
    [
        (5.0, 2.0, 6.0, "launch-bound", "launch"),  # the next launch begins before the kernel does, and is what is waited for
        (5.0, 8.0, 6.0, "gpu-bound", "switch"),  # the queue is full: kernels follow one another
    ],
)
def test_short_kernels_wait_for_their_launch_and_long_ones_for_one_another(tmp_path, every, took, delay, wanted, cause):
    found = read(tmp_path / "t.json", launches(every, took, delay))
    causes = found["gpu"]["idle_by_cause_ns"]
    assert found["verdict"]["class"] == wanted, causes
    assert max(causes, key=lambda name: causes[name]) == cause, causes
