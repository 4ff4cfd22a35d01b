"""Triplet margin on cosine distances

Family: loss
Size: small
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, margin: float):
        super().__init__()
        self.margin = margin

    def forward(self, anchor: torch.Tensor, near: torch.Tensor, far: torch.Tensor) -> torch.Tensor:
        a, p, n = (F.normalize(x, dim=-1) for x in (anchor, near, far))
        return F.relu(self.margin - (a * p).sum(-1) + (a * n).sum(-1)).mean()


def get_inputs():
    return [torch.randn(1024, 512), torch.randn(1024, 512), torch.randn(1024, 512)]


def get_init_inputs():
    return [0.3]
