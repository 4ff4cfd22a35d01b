"""Content that a timing takes again must be as good as new: known in no part, and from no earlier result to be had."""

from __future__ import annotations

import pytest
import torch

from gpu_runner.child.variants import scalable, scaled


@pytest.mark.parametrize("shape", [(64,), (6, 8), (4, 5, 6), (4, 5, 6, 7)])
def test_along_no_dimension_is_content_only_multiplied(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    [again] = scaled([x], 0.75, seed=3)
    factors = again / x
    assert bool(((factors > 0.74) & (factors < 1.0001)).all())
    for dim in range(x.dim()):
        first = factors.narrow(dim, 0, 1)
        assert float((factors / first - 1.0).abs().max()) > 0.001, f"the same factor all along dimension {dim}"


def test_whole_numbers_and_masks_are_drawn_anew() -> None:
    assert scalable([torch.randn(3), torch.randn(2, 2, dtype=torch.complex64), 7])
    assert not scalable([torch.randn(3), torch.randint(9, (3,))])
    assert not scalable([torch.randn(3), torch.ones(3, dtype=torch.bool)])
    assert not scalable([])
