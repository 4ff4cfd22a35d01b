"""Smooth absolute error, weighted by row

Family: loss
Size: small
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (F.smooth_l1_loss(x, y, reduction="none").mean(dim=-1) * weight).sum()


def get_inputs():
    return [torch.randn(2048, 256), torch.randn(2048, 256), torch.rand(2048)]


def get_init_inputs():
    return []
