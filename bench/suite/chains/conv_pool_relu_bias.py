"""Convolution, maxima, ReLU and a bias afterwards

Family: conv-chain
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 5, padding=2)
        self.pool = nn.MaxPool2d(2)
        self.shift = nn.Parameter(torch.randn(outputs, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.pool(self.conv(x))) + self.shift


def get_inputs():
    return [torch.rand(64, 24, 160, 160)]


def get_init_inputs():
    return [24, 72]
