"""A dilated convolution over long sequences

Family: convolution
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, 5, padding=16, dilation=8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(24, 320, 9000)]


def get_init_inputs():
    return [320]
