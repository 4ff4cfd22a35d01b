"""Linear, swish, a multiple of the input added

Family: gemm-chain
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        return y * torch.sigmoid(y) + 0.5 * x


def get_inputs():
    return [torch.randn(4096, 4096)]


def get_init_inputs():
    return [4096]
