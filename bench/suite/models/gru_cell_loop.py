"""A GRU cell unrolled by hand with a norm in each step

Family: recurrent
Size: small
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner: int, hidden: int):
        super().__init__()
        self.cell = nn.GRUCell(inner, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.hidden = hidden

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.new_zeros(x.shape[1], self.hidden)
        for step in range(x.shape[0]):
            h = self.norm(self.cell(x[step], h))
        return h


def get_inputs():
    return [torch.randn(12, 32, 64)]


def get_init_inputs():
    return [64, 96]
