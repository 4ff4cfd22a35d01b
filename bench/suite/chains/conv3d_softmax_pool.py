"""Volume convolution, softmax over channels, two poolings

Family: conv-chain
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv = nn.Conv3d(inputs, outputs, 3)
        self.pool = nn.MaxPool3d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(self.pool(torch.softmax(self.conv(x), dim=1)))


def get_inputs():
    return [torch.rand(32, 8, 36, 66, 66)]


def get_init_inputs():
    return [8, 32]
