"""A transposed convolution that doubles height and width

Family: convolution
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv = nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.rand(64, 160, 72, 72)]


def get_init_inputs():
    return [160, 96]
