"""LayerNorm followed by GELU
Family: normalisation. The first half of a transformer's feed-forward block, on 4096 tokens of width 1024.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.norm(x))


def get_inputs():
    return [torch.randn(8, 512, 1024)]


def get_init_inputs():
    return [1024]
