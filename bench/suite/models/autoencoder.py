"""Dense autoencoder with tanh and a reconstruction error

Family: mlp
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width: int, code: int):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, code), nn.Tanh())
        self.decode = nn.Sequential(nn.Linear(code, width), nn.Tanh(), nn.Linear(width, width))

    def forward(self, x: torch.Tensor):
        y = self.decode(self.encode(x))
        return y, (x - y).square().mean(dim=-1)


def get_inputs():
    return [torch.randn(3072, 4096)]


def get_init_inputs():
    return [4096, 1024]
