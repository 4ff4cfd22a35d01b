import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x) @ torch.zeros(256, 64, device=x.device)


def get_inputs():
    return [torch.randn(64, 256)]
