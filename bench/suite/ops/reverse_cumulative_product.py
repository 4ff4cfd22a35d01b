"""Running products from the end

Family: scan
Size: small
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumprod(x.flip(-1), dim=-1).flip(-1)


def get_inputs():
    return [0.9 + 0.2 * torch.rand(512, 1000)]


def get_init_inputs():
    return []
