"""Pooling head: generalised mean and max over space, then a classifier
Family: pooling. GeM pooling as used in image retrieval, concatenated with global max pooling.
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels: int, classes: int, p: float = 3.0, eps: float = 1e-6):
        super().__init__()
        self.p = p
        self.eps = eps
        self.norm = nn.BatchNorm1d(2 * channels)
        self.fc = nn.Linear(2 * channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gem = x.clamp(min=self.eps).pow(self.p).mean(dim=(2, 3)).pow(1.0 / self.p)
        peak = x.amax(dim=(2, 3))
        return self.fc(self.norm(torch.cat([gem, peak], dim=1)))


def get_inputs():
    return [torch.randn(32, 512, 14, 14)]


def get_init_inputs():
    return [512, 200]
