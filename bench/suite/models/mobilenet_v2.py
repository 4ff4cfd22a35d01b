"""Inverted residuals with linear bottlenecks

Family: cnn
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Inverted(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, expand: int):
        super().__init__()
        hidden = inputs * expand
        self.add = stride == 1 and inputs == outputs
        self.path = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.path(x) if self.add else self.path(x)


class Model(nn.Module):
    def __init__(self, plan: list, classes: int):
        super().__init__()
        layers: list = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
        inputs = 32
        for expand, outputs, count, stride in plan:
            for number in range(count):
                layers.append(Inverted(inputs, outputs, stride if number == 0 else 1, expand))
                inputs = outputs
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.adaptive_avg_pool2d(self.body(x), 1).flatten(1))


def get_inputs():
    return [torch.rand(32, 3, 224, 224)]


def get_init_inputs():
    return [[(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 3, 2), (6, 96, 2, 1), (6, 160, 2, 2)], 1000]
