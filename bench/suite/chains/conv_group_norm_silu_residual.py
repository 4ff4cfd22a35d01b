"""Convolution, group norm, SiLU, and the input added

Family: conv-chain
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, channels: int, groups: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + F.silu(self.norm(self.conv(x)))


def get_inputs():
    return [torch.randn(32, 128, 96, 96)]


def get_init_inputs():
    return [128, 8]
