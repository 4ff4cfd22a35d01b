"""GRU in both directions, its last states

Family: recurrent
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner: int, hidden: int, layers: int):
        super().__init__()
        self.gru = nn.GRU(inner, hidden, layers, bidirectional=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gru(x)[1].transpose(0, 1).flatten(1)


def get_inputs():
    return [torch.randn(128, 16, 160)]


def get_init_inputs():
    return [160, 200, 2]
