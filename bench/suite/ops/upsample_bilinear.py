"""Bilinear enlargement of feature maps

Family: indexing
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, factor: int):
        super().__init__()
        self.grow = nn.Upsample(scale_factor=factor, mode="bilinear", align_corners=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.grow(x)


def get_inputs():
    return [torch.rand(32, 64, 200, 200)]


def get_init_inputs():
    return [4]
