"""A wide linear layer on many tokens

Family: matmul
Size: large
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
    return [torch.rand(8, 512, 4096)]


def get_init_inputs():
    return [4096, 8448]
