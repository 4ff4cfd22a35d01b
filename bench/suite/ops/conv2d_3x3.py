"""A 3 × 3 convolution in the middle of a network

Family: convolution
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.rand(48, 96, 112, 112)]


def get_init_inputs():
    return [96, 192]
