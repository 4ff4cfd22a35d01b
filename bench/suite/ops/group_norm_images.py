"""Group norm of feature maps

Family: normalisation
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, groups: int, channels: int):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    return [torch.rand(56, 96, 272, 272)]


def get_init_inputs():
    return [12, 96]
