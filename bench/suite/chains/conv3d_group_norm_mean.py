"""Volume convolution, hard swish, group norm, mean over the volume

Family: conv-chain
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int, groups: int):
        super().__init__()
        self.conv = nn.Conv3d(inputs, outputs, 4)
        self.norm = nn.GroupNorm(groups, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(F.hardswish(self.conv(x))).mean(dim=(2, 3, 4))


def get_inputs():
    return [torch.rand(64, 4, 24, 56, 56)]


def get_init_inputs():
    return [4, 24, 4]
