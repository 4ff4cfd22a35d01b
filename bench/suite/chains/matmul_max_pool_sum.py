"""Linear, maxima of pairs, a sum of what is left

Family: gemm-chain
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner: int, outer: int, kernel: int):
        super().__init__()
        self.layer = nn.Linear(inner, outer)
        self.pool = nn.MaxPool1d(kernel)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.pool(self.layer(x).unsqueeze(1)).squeeze(1)
        return 0.5 * y.sum(dim=1)


def get_inputs():
    return [torch.rand(1024, 7168)]


def get_init_inputs():
    return [7168, 10240, 2]
