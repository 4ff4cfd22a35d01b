"""Of a result that spans many orders of magnitude small elements count; of one that does not, noise around zero does not."""

from __future__ import annotations

import torch

from gpu_runner.child.results import Baseline, compare_leaf
from gpu_runner.contracts import PROTOCOLS
from gpu_runner.verdict import leaf_ratio, lost

RTOL = PROTOCOLS["strict"].rtol


def numbers(candidate: torch.Tensor, eager: torch.Tensor, truth: torch.Tensor) -> dict[str, object]:
    name = str(eager.dtype).removeprefix("torch.")
    return compare_leaf(candidate, eager, Baseline(eager, truth), RTOL[name], 10.0)


def test_steep_results_without_their_small_elements_are_lost_and_coarse_ones_imprecise() -> None:
    x = torch.randn(200, 200, generator=torch.Generator().manual_seed(1))
    eager, truth = torch.exp(6.0 * x), torch.exp(6.0 * x.double())
    for kept, most in ((x > x.max() - 3.4, True), (x > -0.5, False)):
        leaf = numbers(eager * kept, eager, truth)
        assert (leaf["failures"], lost(leaf)) == (0, most)
        assert (leaf_ratio(leaf) or 0.0) > 1000.0
    honest = numbers((truth * (1 + 1e-7 * torch.randn(200, 200))).float(), eager, truth)
    assert (honest["small"] > 20_000, honest["lost"], (leaf_ratio(honest) or 99.0) < 3.0) == (True, 0, True)


def test_noise_that_is_small_beside_the_result_is_no_loss_where_few_elements_are_small() -> None:
    for dtype, noise in ((torch.float32, 1e-6), (torch.bfloat16, 4e-3), (torch.float16, 5e-4)):
        truth = torch.randn(300, 300, dtype=torch.float64)
        leaf = numbers((truth + noise * torch.randn(300, 300)).to(dtype), truth.to(dtype), truth)
        assert (leaf["small"], leaf["lost"]) == (0, 0)
    sparse = torch.relu(torch.randn(300, 300, dtype=torch.float64))
    assert numbers(sparse.float(), sparse.float(), sparse)["small"] == 0
