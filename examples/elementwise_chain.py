"""Elementwise chain: gated activation with clamping and a learned mix
Family: elementwise. A dozen pointwise operations on two tensors of four million numbers.
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), 0.5))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        g = torch.sigmoid(gate * self.scale + self.bias)
        h = torch.tanh(x) * g + x * (1.0 - g)
        h = torch.where(h > 0, h, 0.1 * h)
        return torch.clamp(h, -3.0, 3.0) * torch.exp(-0.5 * g)


def get_inputs():
    return [torch.randn(4096, 1024), torch.randn(4096, 1024)]


def get_init_inputs():
    return [1024]
