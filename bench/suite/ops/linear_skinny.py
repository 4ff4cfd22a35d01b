"""A large weight read for a handful of rows

Family: matmul
Size: small
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner: int, outer: int):
        super().__init__()
        self.layer = nn.Linear(inner, outer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def get_inputs():
    return [torch.randn(12, 6144)]


def get_init_inputs():
    return [6144, 8192]
