"""Linear, division and a log-sum-exp over the features

Family: gemm-chain
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, inner: int, outer: int):
        super().__init__()
        self.layer = nn.Linear(inner, outer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.leaky_relu(self.layer(x) / 2.0, 0.1)
        return torch.logsumexp(y, dim=1, keepdim=True)


def get_inputs():
    return [torch.rand(1024, 8192)]


def get_init_inputs():
    return [8192, 9216]
