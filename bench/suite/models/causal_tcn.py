"""Dilated causal convolutions with residuals

Family: recurrent
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, channels: int, dilation: int):
        super().__init__()
        self.pad = 2 * dilation
        self.conv1 = nn.Conv1d(channels, channels, 3, dilation=dilation)
        self.conv2 = nn.Conv1d(channels, channels, 3, dilation=dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.conv1(F.pad(x, (self.pad, 0))))
        y = F.relu(self.conv2(F.pad(y, (self.pad, 0))))
        return F.relu(x + y)


class Model(nn.Module):
    def __init__(self, channels: int, levels: int):
        super().__init__()
        self.blocks = nn.Sequential(*[Block(channels, 2**k) for k in range(levels)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(x)


def get_inputs():
    return [torch.randn(24, 160, 2048)]


def get_init_inputs():
    return [160, 6]
