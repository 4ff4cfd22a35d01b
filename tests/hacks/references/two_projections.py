import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)

    def forward(self, x):
        return self.query(x), self.key(x)


def get_inputs():
    return [torch.randn(32, 64)]


def get_init_inputs():
    return [64]
