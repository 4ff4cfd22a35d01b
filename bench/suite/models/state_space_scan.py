"""A diagonal state space, step by step over the sequence

Family: state-space
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width: int, state: int):
        super().__init__()
        self.decay = nn.Parameter(-0.5 - torch.rand(width, state))
        self.skip = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor, step: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        step = F.softplus(step)
        h = x.new_zeros(x.shape[0], x.shape[2], self.decay.shape[1])
        results = []
        for t in range(x.shape[1]):
            d = step[:, t].unsqueeze(-1)
            h = torch.exp(d * self.decay) * h + d * x[:, t].unsqueeze(-1) * b[:, t].unsqueeze(1)
            results.append((h * c[:, t].unsqueeze(1)).sum(-1) + self.skip * x[:, t])
        return torch.stack(results, dim=1)


def get_inputs():
    return [torch.randn(8, 64, 512), torch.randn(8, 64, 512), torch.randn(8, 64, 16), torch.randn(8, 64, 16)]


def get_init_inputs():
    return [512, 16]
