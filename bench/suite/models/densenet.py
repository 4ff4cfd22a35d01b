"""A DenseNet-like network

Family: cnn
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, inputs: int, growth: int):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv1(F.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(F.relu(self.norm2(y)))], dim=1)


class Model(nn.Module):
    def __init__(self, growth: int, plan: list, classes: int):
        super().__init__()
        channels = 2 * growth
        parts: list = [nn.Conv2d(3, channels, 7, 2, 3, bias=False), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        for number, count in enumerate(plan):
            for _ in range(count):
                parts.append(Layer(channels, growth))
                channels += growth
            if number + 1 < len(plan):
                parts += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels // 2, 1), nn.AvgPool2d(2)]
                channels //= 2
        self.body = nn.Sequential(*parts, nn.BatchNorm2d(channels), nn.ReLU())
        self.head = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).mean(dim=(2, 3)))


def get_inputs():
    return [torch.rand(24, 3, 224, 224)]


def get_init_inputs():
    return [32, [6, 8, 8], 1000]
