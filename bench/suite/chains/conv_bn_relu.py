"""Convolution, batch norm and ReLU

Family: conv-chain
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm(self.conv(x)))


def get_inputs():
    return [torch.rand(48, 64, 128, 128)]


def get_init_inputs():
    return [64, 128]
