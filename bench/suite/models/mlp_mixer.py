"""Mixer: products over patches, then over channels

Family: mlp
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Mix(nn.Module):
    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(F.gelu(self.first(x)))


class Block(nn.Module):
    def __init__(self, patches: int, width: int):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.tokens = Mix(patches, patches * 2)
        self.norm2 = nn.LayerNorm(width)
        self.channels = Mix(width, width * 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Model(nn.Module):
    def __init__(self, patch: int, width: int, depth: int, classes: int):
        super().__init__()
        self.embed = nn.Conv2d(3, width, patch, stride=patch)
        self.blocks = nn.Sequential(*[Block((224 // patch) ** 2, width) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(dim=1))


def get_inputs():
    return [torch.rand(32, 3, 224, 224)]


def get_init_inputs():
    return [16, 512, 6, 1000]
