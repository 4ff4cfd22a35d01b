"""A tiny vision transformer on one small image

Family: vision-transformer
Size: small
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, patch: int, width: int, heads: int, depth: int, classes: int):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(3 * patch * patch, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        patches = F.unfold(x, self.patch, stride=self.patch).transpose(1, 2)
        return self.head(self.layers(self.embed(patches)).mean(dim=1))


def get_inputs():
    return [torch.rand(2, 3, 64, 64)]


def get_init_inputs():
    return [8, 192, 3, 4, 100]
