"""Token and position embeddings, summed and normalised

Family: indexing
Size: small
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, words: int, length: int, width: int):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.randn(length, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.norm(self.words(tokens) + self.places)


def get_inputs():
    return [torch.randint(0, 20000, (16, 256))]


def get_init_inputs():
    return [20000, 256, 512]
