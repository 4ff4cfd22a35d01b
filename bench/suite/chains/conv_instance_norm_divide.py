"""Convolution, instance norm and a division

Family: conv-chain
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3)
        self.norm = nn.InstanceNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x)) / 2.0


def get_inputs():
    return [torch.rand(64, 48, 130, 130)]


def get_init_inputs():
    return [48, 96]
