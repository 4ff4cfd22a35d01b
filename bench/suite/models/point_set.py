"""Shared layers on points, a maximum over the set

Family: mlp
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, widths: list, classes: int):
        super().__init__()
        layers: list = []
        for inner, outer in zip([3, *widths], widths, strict=False):
            layers += [nn.Conv1d(inner, outer, 1), nn.BatchNorm1d(outer), nn.ReLU()]
        self.points = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(widths[-1], 256), nn.ReLU(), nn.Linear(256, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.points(x).amax(dim=-1))


def get_inputs():
    return [torch.randn(64, 3, 4096)]


def get_init_inputs():
    return [[64, 128, 512], 40]
