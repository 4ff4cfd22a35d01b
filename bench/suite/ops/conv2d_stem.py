"""The first convolution of a network: few channels, large kernel, stride

Family: convolution
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, outputs: int):
        super().__init__()
        self.conv = nn.Conv2d(3, outputs, 9, stride=2, padding=4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.rand(96, 3, 288, 288)]


def get_init_inputs():
    return [96]
