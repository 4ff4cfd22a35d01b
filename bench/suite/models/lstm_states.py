"""LSTM whose final cell is the answer

Family: recurrent
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner: int, hidden: int, layers: int):
        super().__init__()
        self.lstm = nn.LSTM(inner, hidden, layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[1][1]


def get_inputs():
    return [torch.randn(256, 8, 128)]


def get_init_inputs():
    return [128, 192, 4]
