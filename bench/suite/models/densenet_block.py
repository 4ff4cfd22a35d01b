"""A dense block: every layer sees all before it

Family: cnn
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, inputs: int, growth: int):
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.conv = nn.Conv2d(inputs, growth, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.relu(self.norm(x)))


class Model(nn.Module):
    def __init__(self, inputs: int, growth: int, layers: int):
        super().__init__()
        self.layers = nn.ModuleList(Layer(inputs + k * growth, growth) for k in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], dim=1)
        return x


def get_inputs():
    return [torch.rand(16, 48, 112, 112)]


def get_init_inputs():
    return [48, 24, 7]
