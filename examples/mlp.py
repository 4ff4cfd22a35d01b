"""MLP classifier with GELU and a residual connection
Family: mlp. Three linear layers on a batch of 256 feature vectors, as in tabular and recommendation models.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, features: int, hidden: int, classes: int):
        super().__init__()
        self.fc1 = nn.Linear(features, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.gelu(self.fc1(x))
        h = h + F.gelu(self.fc2(h))
        return self.fc3(h)


def get_inputs():
    return [torch.randn(256, 512)]


def get_init_inputs():
    return [512, 1024, 100]
