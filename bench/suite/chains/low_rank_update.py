"""A frozen layer with a low-rank update beside it

Family: gemm-chain
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width: int, rank: int):
        super().__init__()
        self.base = nn.Linear(width, width)
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + 2.0 * self.up(self.down(x))


def get_inputs():
    return [torch.randn(6, 1000, 3584)]


def get_init_inputs():
    return [3584, 24]
