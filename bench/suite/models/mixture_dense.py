"""Mixture of experts, every expert applied and weighted

Family: mlp
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width: int, hidden: int, experts: int):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) * width**-0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) * hidden**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = torch.softmax(self.gate(x), dim=-1)
        hidden = F.gelu(torch.einsum("nd,edh->enh", x, self.up))
        y = torch.bmm(hidden, self.down)
        return (y * weight.t().unsqueeze(-1)).sum(dim=0)


def get_inputs():
    return [torch.randn(2048, 1024)]


def get_init_inputs():
    return [1024, 2048, 8]
