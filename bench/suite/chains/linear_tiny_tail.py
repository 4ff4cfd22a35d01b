"""A small linear layer, tanh and a dot product

Family: gemm-chain
Size: small
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner: int, outer: int):
        super().__init__()
        self.layer = nn.Linear(inner, outer)
        self.out = nn.Parameter(torch.randn(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (torch.tanh(self.layer(x) - 0.3) * self.out).sum(-1)


def get_inputs():
    return [torch.randn(256, 384)]


def get_init_inputs():
    return [384, 192]
