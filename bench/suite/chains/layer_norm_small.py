"""Layer norm, GELU and a residual on few tokens

Family: norm-chain
Size: small
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + F.gelu(self.norm(x))


def get_inputs():
    return [torch.randn(4, 128, 768)]


def get_init_inputs():
    return [768]
