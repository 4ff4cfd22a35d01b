"""A VGG-like network of thirteen layers

Family: cnn
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, plan: list, classes: int):
        super().__init__()
        layers: list = []
        channels = 3
        for width in plan:
            if width == 0:
                layers.append(nn.MaxPool2d(2))
            else:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(channels * 36, 2048), nn.ReLU(inplace=True), nn.Linear(2048, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.flatten(self.features(x), 1))


def get_inputs():
    return [torch.rand(16, 3, 192, 192)]


def get_init_inputs():
    return [[64, 64, 0, 128, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0], 500]
