import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x.sum(-1, keepdim=True), -1)


def get_inputs():
    return [torch.randn(64, 256)]
