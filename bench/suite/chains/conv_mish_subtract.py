"""Convolution, two subtractions and Mish

Family: conv-chain
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.mish(self.conv(x) - 0.4 - 0.15)


def get_inputs():
    return [torch.rand(96, 16, 144, 144)]


def get_init_inputs():
    return [16, 64]
