"""A small convolution with ReLU and a mean over pixels

Family: conv-chain
Size: small
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.conv(x)).mean(dim=(2, 3))


def get_inputs():
    return [torch.rand(16, 16, 32, 32)]


def get_init_inputs():
    return [16, 32]
