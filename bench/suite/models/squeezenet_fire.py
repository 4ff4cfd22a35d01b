"""One fire module on small maps

Family: cnn
Size: small
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, inputs: int, squeeze: int, expand: int):
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeeze, 1)
        self.near = nn.Conv2d(squeeze, expand, 1)
        self.wide = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.near(x)), F.relu(self.wide(x))], dim=1)


def get_inputs():
    return [torch.rand(8, 96, 28, 28)]


def get_init_inputs():
    return [96, 24, 80]
