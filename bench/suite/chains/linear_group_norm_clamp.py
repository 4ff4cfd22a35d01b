"""Linear, group norm and a clamp

Family: gemm-chain
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner: int, outer: int, groups: int):
        super().__init__()
        self.layer = nn.Linear(inner, outer)
        self.norm = nn.GroupNorm(groups, outer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.layer(x)).clamp(-1.5, 1.5)


def get_inputs():
    return [torch.rand(1536, 8192)]


def get_init_inputs():
    return [8192, 8192, 32]
