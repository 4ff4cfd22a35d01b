"""LSTM in both directions, mean over time

Family: recurrent
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner: int, hidden: int, outer: int):
        super().__init__()
        self.lstm = nn.LSTM(inner, hidden, 2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * hidden, outer)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        y, _ = self.lstm(x, (h, c))
        return self.head(y.mean(dim=1))


def get_inputs():
    return [torch.randn(12, 144, 128), torch.randn(4, 12, 224), torch.randn(4, 12, 224)]


def get_init_inputs():
    return [128, 224, 20]
