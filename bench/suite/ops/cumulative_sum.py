"""Running sums along long rows

Family: scan
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x, dim=1)


def get_inputs():
    return [torch.rand(8192, 60000)]


def get_init_inputs():
    return []
