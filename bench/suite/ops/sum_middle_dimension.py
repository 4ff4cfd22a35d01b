"""Sums over the middle dimension

Family: reduction
Size: small
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(dim=1, keepdim=True)


def get_inputs():
    return [torch.randn(64, 700, 513)]


def get_init_inputs():
    return []
