import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.kthvalue(3, dim=-1).indices, x.argmax(-1).int()


def get_inputs():
    return [(torch.randn(64, 256) * 3).round()]
