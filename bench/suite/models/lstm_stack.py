"""Three stacked LSTM layers, the last step classified

Family: recurrent
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner: int, hidden: int, layers: int, outer: int):
        super().__init__()
        self.lstm = nn.LSTM(inner, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, outer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.lstm(x)
        return self.head(y[:, -1])


def get_inputs():
    return [torch.randn(16, 160, 192)]


def get_init_inputs():
    return [192, 256, 3, 12]
