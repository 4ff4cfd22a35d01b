"""A transition between dense blocks

Family: cnn
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.conv = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.pool = nn.AvgPool2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(self.conv(F.relu(self.norm(x))))


def get_inputs():
    return [torch.rand(96, 64, 176, 176)]


def get_init_inputs():
    return [64, 96]
