"""Focal loss of dense binary predictions

Family: loss
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, gamma: float):
        super().__init__()
        self.gamma = gamma

    def forward(self, scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        p = torch.sigmoid(scores)
        right = p * target + (1 - p) * (1 - target)
        plain = F.binary_cross_entropy_with_logits(scores, target, reduction="none")
        return ((1 - right) ** self.gamma * plain).mean()


def get_inputs():
    return [torch.randn(64, 80, 100, 100), torch.rand(64, 80, 100, 100)]


def get_init_inputs():
    return [2.0]
