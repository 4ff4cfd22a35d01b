"""GRU encoder over sensor readings
Family: recurrent. A two-layer GRU over 96 steps, mean over time, a classifier.
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features: int, hidden: int, classes: int):
        super().__init__()
        self.gru = nn.GRU(features, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output, hidden = self.gru(x)
        return self.head(output.mean(dim=1) + hidden[-1])


def get_inputs():
    return [torch.randn(8, 96, 64)]


def get_init_inputs():
    return [64, 128, 10]
