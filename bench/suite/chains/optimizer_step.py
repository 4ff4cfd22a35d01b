"""One step of an adaptive optimizer on a flat parameter

Family: pointwise-chain
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, rate: float, decay: float):
        super().__init__()
        self.rate = rate
        self.decay = decay

    def forward(self, weight: torch.Tensor, grad: torch.Tensor, first: torch.Tensor, second: torch.Tensor):
        first = 0.9 * first + 0.1 * grad
        second = 0.999 * second + 0.001 * grad * grad
        step = first / (second.sqrt() + 1e-8)
        return weight - self.rate * (step + self.decay * weight), first, second


def get_inputs():
    return [torch.randn(50_000_000), torch.randn(50_000_000), torch.randn(50_000_000), torch.rand(50_000_000)]


def get_init_inputs():
    return [1e-3, 0.01]
