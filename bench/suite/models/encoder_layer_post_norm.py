"""A post-norm encoder layer over the positions of images

Family: transformer
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads)
        self.norm1 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, c, h, w = x.shape
        y = x.flatten(2).permute(2, 0, 1)
        y = self.norm1(y + self.attention(y, y, y)[0])
        y = self.norm2(y + self.mlp(y))
        return y.permute(1, 2, 0).view(b, c, h, w)


def get_inputs():
    return [torch.randn(12, 256, 40, 40)]


def get_init_inputs():
    return [256, 4]
