"""One step of a small UNet: down, middle, up with a skip connection
Family: convolution. Convolutions with GroupNorm and SiLU, average pooling, nearest upsampling, concatenation.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, cin: int, cout: int):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1)
        self.norm = nn.GroupNorm(8, cout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.norm(self.conv(x)))


class Model(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.inp = Block(4, channels)
        self.down = Block(channels, 2 * channels)
        self.mid = Block(2 * channels, 2 * channels)
        self.up = Block(3 * channels, channels)
        self.out = nn.Conv2d(channels, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = self.inp(x)
        h = self.down(F.avg_pool2d(skip, 2))
        h = self.mid(h)
        h = F.interpolate(h, scale_factor=2, mode="nearest")
        h = self.up(torch.cat([h, skip], dim=1))
        return x + self.out(h)


def get_inputs():
    return [torch.randn(2, 4, 64, 64)]


def get_init_inputs():
    return [32]
