"""Root mean square norm over the channel dimension

Family: normalisation
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.square().mean(dim=1, keepdim=True)
        return x * torch.rsqrt(mean + 1e-5) * self.scale


def get_inputs():
    return [torch.rand(56, 64, 224, 224)]


def get_init_inputs():
    return [64]
