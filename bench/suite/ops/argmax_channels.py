"""The winning channel of each pixel

Family: reduction
Size: small
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.argmax(x, dim=1)


def get_inputs():
    return [torch.rand(16, 21, 128, 128)]


def get_init_inputs():
    return []
