"""A short LSTM with an embedding

Family: recurrent
Size: small
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, words: int, width: int, hidden: int):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.head = nn.Linear(hidden, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.words(tokens))[0])


def get_inputs():
    return [torch.randint(0, 500, (8, 24))]


def get_init_inputs():
    return [500, 64, 96]
