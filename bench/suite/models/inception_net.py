"""An Inception-like network with norms

Family: cnn
Size: large
"""

import torch
import torch.nn as nn


def unit(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Mixed(nn.Module):
    def __init__(self, inputs: int, width: int):
        super().__init__()
        self.a = unit(inputs, width, 1)
        self.b = nn.Sequential(unit(inputs, width, 1), unit(width, 2 * width, 3))
        self.c = nn.Sequential(unit(inputs, width // 2, 1), unit(width // 2, width, 3), unit(width, width, 3))
        self.d = nn.Sequential(nn.AvgPool2d(3, stride=1, padding=1), unit(inputs, width, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.a(x), self.b(x), self.c(x), self.d(x)], dim=1)


class Model(nn.Module):
    def __init__(self, width: int, blocks: int, classes: int):
        super().__init__()
        self.stem = nn.Sequential(unit(3, width, 7, 2), nn.MaxPool2d(3, 2, 1), unit(width, 3 * width, 3), nn.MaxPool2d(3, 2, 1))
        layers: list = []
        channels = 3 * width
        for number in range(blocks):
            layers.append(Mixed(channels, width))
            channels = 5 * width
            if number % 3 == 2:
                layers.append(nn.MaxPool2d(3, 2, 1))
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.stem(x)).mean(dim=(2, 3)))


def get_inputs():
    return [torch.rand(64, 3, 224, 224)]


def get_init_inputs():
    return [64, 7, 1000]
