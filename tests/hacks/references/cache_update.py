import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, cache, x):
        cache.mul_(0.5).add_(torch.tanh(x))
        return x[:, 0]


def get_inputs():
    return [torch.randn(256, 1024), torch.randn(256, 1024)]
