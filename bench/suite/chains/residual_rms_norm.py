"""Residual sum and root mean square norm, both handed on

Family: norm-chain
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor, residual: torch.Tensor):
        total = x + residual
        mean = total.pow(2).mean(-1, keepdim=True)
        return total * torch.rsqrt(mean + 1e-6) * self.weight, total


def get_inputs():
    return [torch.randn(28, 1024, 4096), torch.randn(28, 1024, 4096)]


def get_init_inputs():
    return [4096]
