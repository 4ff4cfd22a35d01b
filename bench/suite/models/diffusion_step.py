"""Residual blocks of a diffusion network, conditioned on a time

Family: segmentation
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Residual(nn.Module):
    def __init__(self, channels: int, condition: int):
        super().__init__()
        self.norm1 = nn.GroupNorm(8, channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(condition, channels)
        self.norm2 = nn.GroupNorm(8, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time(F.silu(t))[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(y)))


class Model(nn.Module):
    def __init__(self, channels: int, condition: int, blocks: int):
        super().__init__()
        self.blocks = nn.ModuleList(Residual(channels, condition) for _ in range(blocks))

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x, t)
        return x


def get_inputs():
    return [torch.randn(16, 128, 64, 64), torch.randn(16, 256)]


def get_init_inputs():
    return [128, 256, 4]
