"""Stacked GRU layers over a long sequence

Family: recurrent
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner: int, hidden: int, layers: int):
        super().__init__()
        self.gru = nn.GRU(inner, hidden, layers, batch_first=True)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return self.gru(x, h)[0]


def get_inputs():
    return [torch.randn(20, 192, 128), torch.randn(3, 20, 256)]


def get_init_inputs():
    return [128, 256, 3]
