"""Convolution over sequences with a gated half, residual and norm

Family: conv-chain
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, channels: int, kernel: int):
        super().__init__()
        self.conv = nn.Conv1d(channels, 2 * channels, kernel, padding=kernel // 2)
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.glu(self.conv(x), dim=1)
        return self.norm((x + y).transpose(1, 2))


def get_inputs():
    return [torch.randn(24, 256, 4096)]


def get_init_inputs():
    return [256, 7]
