"""Convolutional embedding, then attention over its pixels

Family: vision-transformer
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width: int, heads: int, classes: int):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width // 4, 3, 2, 1), nn.BatchNorm2d(width // 4), nn.ReLU(),
            nn.Conv2d(width // 4, width // 2, 3, 2, 1), nn.BatchNorm2d(width // 2), nn.ReLU(),
            nn.Conv2d(width // 2, width, 3, 2, 1),
        )  # fmt: skip
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return self.head((x + self.mlp(x)).mean(dim=1))


def get_inputs():
    return [torch.rand(48, 3, 224, 224)]


def get_init_inputs():
    return [256, 8, 200]
