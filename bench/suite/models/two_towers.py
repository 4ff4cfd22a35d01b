"""Two small towers and their similarity

Family: mlp
Size: small
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Tower(nn.Module):
    def __init__(self, inner: int, width: int):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inner, width), nn.LayerNorm(width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.normalize(self.body(x), dim=-1)


class Model(nn.Module):
    def __init__(self, left: int, right: int, width: int):
        super().__init__()
        self.left, self.right = Tower(left, width), Tower(right, width)
        self.heat = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.left(x) @ self.right(y).t() * self.heat.exp()


def get_inputs():
    return [torch.randn(128, 300), torch.randn(128, 180)]


def get_init_inputs():
    return [300, 180, 256]
