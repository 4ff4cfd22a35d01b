"""Rotary position embedding of queries and keys

Family: pointwise-chain
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, length: int, width: int):
        super().__init__()
        rate = 10000.0 ** (-torch.arange(0, width, 2).float() / width)
        angle = torch.arange(length).float()[:, None] * rate[None, :]
        self.register_buffer("cos", torch.cat([angle.cos(), angle.cos()], dim=-1))
        self.register_buffer("sin", torch.cat([angle.sin(), angle.sin()], dim=-1))

    def turn(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat([-second, first], dim=-1) * self.sin

    def forward(self, q: torch.Tensor, k: torch.Tensor):
        return self.turn(q), self.turn(k)


def get_inputs():
    return [torch.randn(16, 16, 2048, 128), torch.randn(16, 16, 2048, 128)]


def get_init_inputs():
    return [2048, 128]
