"""Attention in shifted windows, and the feed-forward after it

Family: vision-transformer
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width: int, heads: int, window: int, shift: int):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.bias = nn.Parameter(torch.randn(heads, window * window, window * window) * 0.02)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1) + self.bias
        return self.proj((torch.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(b, n, c))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, h, w, c = x.shape
        s = self.window
        y = torch.roll(self.norm1(x), shifts=(-self.shift, -self.shift), dims=(1, 2))
        y = y.view(b, h // s, s, w // s, s, c).transpose(2, 3).reshape(-1, s * s, c)
        y = self.attend(y).view(b, h // s, w // s, s, s, c).transpose(2, 3).reshape(b, h, w, c)
        x = x + torch.roll(y, shifts=(self.shift, self.shift), dims=(1, 2))
        return x + self.mlp(self.norm2(x))


def get_inputs():
    return [torch.randn(16, 56, 56, 192)]


def get_init_inputs():
    return [192, 6, 7, 3]
