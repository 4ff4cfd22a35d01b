"""Batched product of middling matrices

Family: matmul
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.bmm(a, b.transpose(1, 2))


def get_inputs():
    return [torch.randn(96, 1024, 640), torch.randn(96, 1024, 640)]


def get_init_inputs():
    return []
