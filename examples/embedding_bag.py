"""Embedding bag with pooled features and an interaction, as in recommendation models
Family: embedding. Ten categorical fields of 20 ids each, weighted mean per field, pairwise dot products.
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, rows: int, width: int, fields: int):
        super().__init__()
        self.table = nn.Embedding(rows, width)
        self.scale = nn.Parameter(torch.ones(fields, 1))
        self.fc = nn.Linear(fields * fields, 1)

    def forward(self, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        rows = self.table(ids)
        weights = torch.softmax(weights, dim=-1)
        pooled = (rows * weights.unsqueeze(-1)).sum(dim=2) * self.scale
        dots = torch.bmm(pooled, pooled.transpose(1, 2))
        return torch.sigmoid(self.fc(dots.flatten(1)))


def get_inputs():
    return [torch.randint(0, 20000, (256, 10, 20)), torch.randn(256, 10, 20)]


def get_init_inputs():
    return [20000, 64, 10]
