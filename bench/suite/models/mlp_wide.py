"""Multilayer perceptron with wide hidden layers

Family: mlp
Size: large
"""

import itertools

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, sizes: list):
        super().__init__()
        layers: list = []
        for inner, outer in itertools.pairwise(sizes[:-1]):
            layers += [nn.Linear(inner, outer), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


def get_inputs():
    return [torch.rand(1024, 4096)]


def get_init_inputs():
    return [[4096, 8192, 8192, 4096]]
