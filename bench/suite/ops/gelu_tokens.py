"""GELU of a batch of tokens

Family: pointwise
Size: small
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x)


def get_inputs():
    return [torch.randn(16, 256, 1536)]


def get_init_inputs():
    return []
