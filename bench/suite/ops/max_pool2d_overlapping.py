"""Overlapping maxima with dilation

Family: pooling
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, kernel: int):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel, stride=1, padding=kernel // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x)


def get_inputs():
    return [torch.rand(48, 96, 200, 200)]


def get_init_inputs():
    return [5]
