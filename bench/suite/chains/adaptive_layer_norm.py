"""Layer norm whose scale and shift come from a condition

Family: norm-chain
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width: int, condition: int):
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulation = nn.Linear(condition, 2 * width)

    def forward(self, x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        shift, scale = self.modulation(F.silu(c)).chunk(2, dim=-1)
        return self.norm(x) * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


def get_inputs():
    return [torch.randn(80, 1536, 1536), torch.randn(80, 512)]


def get_init_inputs():
    return [1536, 512]
