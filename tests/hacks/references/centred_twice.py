import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        y = x.amax(-1, keepdim=True)
        return torch.nn.functional.gelu(y - y.mean(-1, keepdim=True))


def get_inputs():
    return [torch.randn(64, 256)]
