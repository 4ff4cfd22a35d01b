"""LSTM language model head
Family: recurrent. Embedding, a one-layer LSTM over 64 steps, a linear layer on the last state.
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, vocabulary: int, width: int, hidden: int, classes: int):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        output, _ = self.lstm(self.embed(tokens))
        return self.head(output[:, -1])


def get_inputs():
    return [torch.randint(0, 2000, (16, 64))]


def get_init_inputs():
    return [2000, 128, 256, 50]
