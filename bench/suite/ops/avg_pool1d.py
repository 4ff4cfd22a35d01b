"""Means over windows of a sequence

Family: pooling
Size: small
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, window: int, stride: int):
        super().__init__()
        self.pool = nn.AvgPool1d(window, stride=stride, padding=window // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x)


def get_inputs():
    return [torch.rand(32, 48, 2048)]


def get_init_inputs():
    return [6, 2]
