"""Depthwise and pointwise convolution with norms and hard swish

Family: conv-chain
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.depth = nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs, bias=False)
        self.depth_norm = nn.BatchNorm2d(inputs)
        self.point = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.point_norm = nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.hardswish(self.depth_norm(self.depth(x)))
        return F.hardswish(self.point_norm(self.point(x)))


def get_inputs():
    return [torch.rand(32, 128, 112, 112)]


def get_init_inputs():
    return [128, 160]
