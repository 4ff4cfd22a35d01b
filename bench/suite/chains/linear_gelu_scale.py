"""Linear, GELU, and a scale per feature

Family: gemm-chain
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, inner: int, outer: int):
        super().__init__()
        self.layer = nn.Linear(inner, outer)
        self.scale = nn.Parameter(torch.randn(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.layer(x)) * self.scale


def get_inputs():
    return [torch.rand(2048, 8192)]


def get_init_inputs():
    return [8192, 6144]
