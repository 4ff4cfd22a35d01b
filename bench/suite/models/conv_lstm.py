"""Convolutional LSTM over a short film

Family: recurrent
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inputs: int, hidden: int):
        super().__init__()
        self.hidden = hidden
        self.gates = nn.Conv2d(inputs + hidden, 4 * hidden, 3, padding=1)

    def forward(self, film: torch.Tensor) -> torch.Tensor:
        b, t, _, h, w = film.shape
        state = film.new_zeros(b, self.hidden, h, w)
        cell = film.new_zeros(b, self.hidden, h, w)
        for k in range(t):
            i, f, o, g = self.gates(torch.cat([film[:, k], state], dim=1)).chunk(4, dim=1)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            state = torch.sigmoid(o) * torch.tanh(cell)
        return state


def get_inputs():
    return [torch.rand(8, 10, 16, 64, 64)]


def get_init_inputs():
    return [16, 48]
