"""Linear, batch norm, scale and softmax

Family: gemm-chain
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner: int, outer: int):
        super().__init__()
        self.layer = nn.Linear(inner, outer)
        self.norm = nn.BatchNorm1d(outer)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.scale * self.norm(self.layer(x)), dim=1)


def get_inputs():
    return [torch.rand(1280, 8192)]


def get_init_inputs():
    return [8192, 8192]
