"""A RegNet-like network of grouped bottlenecks

Family: cnn
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, group: int):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())
        self.b = nn.Sequential(
            nn.Conv2d(outputs, outputs, 3, stride, 1, groups=outputs // group, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
        )
        self.c = nn.Sequential(nn.Conv2d(outputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.short(x) + self.c(self.b(self.a(x))))


class Model(nn.Module):
    def __init__(self, widths: list, repeats: list, group: int, classes: int):
        super().__init__()
        layers: list = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
        inputs = 32
        for width, count in zip(widths, repeats, strict=True):
            for number in range(count):
                layers.append(Block(inputs, width, 2 if number == 0 else 1, group))
                inputs = width
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).mean(dim=(2, 3)))


def get_inputs():
    return [torch.rand(48, 3, 224, 224)]


def get_init_inputs():
    return [[72, 168, 408], [2, 4, 3], 24, 1000]
