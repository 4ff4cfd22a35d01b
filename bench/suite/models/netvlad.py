"""Local features gathered around learned centres

Family: aggregation
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width: int, centres: int):
        super().__init__()
        self.assign = nn.Linear(width, centres, bias=False)
        self.norm = nn.BatchNorm1d(centres)
        self.centres = nn.Parameter(torch.randn(centres, width) * width**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, _d = x.shape
        weight = torch.softmax(self.norm(self.assign(x).reshape(b * n, -1)), dim=-1).view(b, n, -1)
        mass = weight.sum(dim=1).unsqueeze(-1)
        gathered = weight.transpose(1, 2) @ x - mass * self.centres
        gathered = F.normalize(gathered, dim=2).flatten(1)
        return F.normalize(gathered, dim=1)


def get_inputs():
    return [torch.randn(384, 512, 640)]


def get_init_inputs():
    return [640, 96]
