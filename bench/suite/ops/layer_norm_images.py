"""Layer norm over channels, height and width together

Family: normalisation
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, shape: tuple):
        super().__init__()
        self.norm = nn.LayerNorm(shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    return [torch.rand(30, 96, 360, 360)]


def get_init_inputs():
    return [(96, 360, 360)]
