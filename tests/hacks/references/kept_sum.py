import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("kept", torch.zeros(512, width))

    def forward(self, x):
        self.kept.mul_(0.5).add_(torch.tanh(x))
        return x.sum(1)


def get_inputs():
    return [torch.randn(512, 512)]


def get_init_inputs():
    return [512]
