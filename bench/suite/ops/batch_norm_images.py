"""Batch norm of feature maps

Family: normalisation
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    return [torch.randn(72, 80, 256, 256)]


def get_init_inputs():
    return [80]
