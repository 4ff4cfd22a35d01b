import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width, width))

    def forward(self, x):
        return x @ self.weight


def get_inputs():
    return [torch.rand(32, 256)]


def get_init_inputs():
    return [256]
