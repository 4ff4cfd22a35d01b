"""Four parallel branches of convolutions, joined

Family: cnn
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inputs: int, one: int, three: tuple, five: tuple, pool: int):
        super().__init__()
        self.one = nn.Conv2d(inputs, one, 1)
        self.three = nn.Sequential(nn.Conv2d(inputs, three[0], 1), nn.Conv2d(three[0], three[1], 3, padding=1))
        self.five = nn.Sequential(nn.Conv2d(inputs, five[0], 1), nn.Conv2d(five[0], five[1], 5, padding=2))
        self.pool = nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), nn.Conv2d(inputs, pool, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], dim=1)


def get_inputs():
    return [torch.rand(24, 288, 96, 96)]


def get_init_inputs():
    return [288, 128, (96, 192), (24, 64), 64]
