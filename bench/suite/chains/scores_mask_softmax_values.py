"""Attention written out: scores, scale, mask, softmax, values

Family: attention
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, length: int):
        super().__init__()
        self.register_buffer("mask", torch.tril(torch.ones(length, length)))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5)
        scores = scores.masked_fill(self.mask == 0, float("-inf"))
        return torch.softmax(scores, dim=-1) @ v


def get_inputs():
    return [torch.randn(8, 16, 1024, 64) for _ in range(3)]


def get_init_inputs():
    return [1024]
