"""Bottleneck blocks of one stage

Family: cnn
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Bottleneck(nn.Module):
    def __init__(self, channels: int, inner: int):
        super().__init__()
        self.reduce = nn.Sequential(nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(inplace=True))
        self.conv = nn.Sequential(
            nn.Conv2d(inner, inner, 3, padding=1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(inplace=True)
        )
        self.expand = nn.Sequential(nn.Conv2d(inner, channels, 1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x + self.expand(self.conv(self.reduce(x))))


class Model(nn.Module):
    def __init__(self, channels: int, inner: int, blocks: int):
        super().__init__()
        self.blocks = nn.Sequential(*[Bottleneck(channels, inner) for _ in range(blocks)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(x)


def get_inputs():
    return [torch.rand(32, 256, 56, 56)]


def get_init_inputs():
    return [256, 64, 6]
