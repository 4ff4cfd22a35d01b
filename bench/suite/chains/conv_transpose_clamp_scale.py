"""Transposed convolution, bias, clamp, scale and clamp

Family: conv-chain
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv = nn.ConvTranspose2d(inputs, outputs, 3, stride=2, padding=1, output_padding=1)
        self.bias = nn.Parameter(torch.randn(outputs, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (self.conv(x) + self.bias).clamp(0.0, 1.0)
        return (2.0 * y).clamp(0.0, 1.5) / 2.0


def get_inputs():
    return [torch.rand(48, 64, 96, 96)]


def get_init_inputs():
    return [64, 48]
