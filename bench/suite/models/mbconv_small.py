"""One inverted residual with squeeze and excitation on small maps

Family: cnn
Size: small
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, channels: int, expand: int):
        super().__init__()
        hidden = channels * expand
        self.expand = nn.Sequential(nn.Conv2d(channels, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.SiLU())
        self.depth = nn.Sequential(
            nn.Conv2d(hidden, hidden, 5, padding=2, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.SiLU()
        )
        self.down = nn.Linear(hidden, channels // 4)
        self.up = nn.Linear(channels // 4, hidden)
        self.project = nn.Sequential(nn.Conv2d(hidden, channels, 1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.depth(self.expand(x))
        gate = torch.sigmoid(self.up(F.silu(self.down(y.mean(dim=(2, 3))))))
        return x + self.project(y * gate[:, :, None, None])


def get_inputs():
    return [torch.rand(8, 56, 14, 14)]


def get_init_inputs():
    return [56, 6]
