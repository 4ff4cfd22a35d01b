"""A plain recurrence written as a loop of products

Family: recurrent
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner: int, hidden: int, outer: int):
        super().__init__()
        self.hidden = hidden
        self.inner = nn.Linear(inner + hidden, hidden)
        self.outer = nn.Linear(hidden, outer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.new_zeros(x.shape[1], self.hidden)
        results = []
        for step in x:
            h = torch.tanh(self.inner(torch.cat([step, h], dim=1)))
            results.append(self.outer(h))
        return torch.stack(results)


def get_inputs():
    return [torch.randn(96, 24, 128)]


def get_init_inputs():
    return [128, 256, 64]
