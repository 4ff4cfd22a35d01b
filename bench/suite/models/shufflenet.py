"""Grouped convolutions with channel shuffles

Family: cnn
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Unit(nn.Module):
    def __init__(self, channels: int, groups: int):
        super().__init__()
        inner = channels // 4
        self.groups = groups
        self.conv1 = nn.Conv2d(channels, inner, 1, groups=groups, bias=False)
        self.norm1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, padding=1, groups=inner, bias=False)
        self.norm2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, channels, 1, groups=groups, bias=False)
        self.norm3 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        b, c, h, w = y.shape
        y = y.view(b, self.groups, c // self.groups, h, w).transpose(1, 2).reshape(b, c, h, w)
        y = self.norm3(self.conv3(self.norm2(self.conv2(y))))
        return F.relu(x + y)


class Model(nn.Module):
    def __init__(self, channels: int, groups: int, units: int):
        super().__init__()
        self.units = nn.Sequential(*[Unit(channels, groups) for _ in range(units)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.units(x)


def get_inputs():
    return [torch.rand(64, 240, 56, 56)]


def get_init_inputs():
    return [240, 3, 5]
