"""Convolution, the least channel of each pixel, tanh twice

Family: conv-chain
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        least = self.conv(x).amin(dim=1, keepdim=True)
        return torch.tanh(torch.tanh(least))


def get_inputs():
    return [torch.rand(80, 32, 176, 176)]


def get_init_inputs():
    return [32, 80]
