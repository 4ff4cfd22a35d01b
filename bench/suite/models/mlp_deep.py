"""Multilayer perceptron of many narrow layers

Family: mlp
Size: small
"""

import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, inner: int, width: int, depth: int, outer: int):
        super().__init__()
        sizes = [inner] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.last = nn.Linear(width, outer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.hidden:
            x = F.relu(layer(x))
        return self.last(x)


def get_inputs():
    return [torch.rand(64, 256)]


def get_init_inputs():
    return [256, 384, 14, 10]
