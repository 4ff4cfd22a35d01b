import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.clamp(x.abs(), 0.0, 1.0) * 3.0 - 1.0


def get_inputs():
    return [torch.rand(64, 256)]
