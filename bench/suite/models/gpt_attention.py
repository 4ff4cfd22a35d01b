"""Causal self-attention written out, with its projections

Family: transformer
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width: int, heads: int, longest: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.register_buffer("hidden", torch.triu(torch.ones(longest, longest, dtype=torch.bool), 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).split(c, dim=2))
        scores = q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5
        scores = scores.masked_fill(self.hidden[:t, :t], float("-inf"))
        y = torch.softmax(scores, dim=-1) @ v
        return self.proj(y.transpose(1, 2).contiguous().view(b, t, c))


def get_inputs():
    return [torch.randn(16, 640, 768)]


def get_init_inputs():
    return [768, 12, 1024]
