"""A SqueezeNet-like network of fire modules

Family: cnn
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Fire(nn.Module):
    def __init__(self, inputs: int, squeeze: int, expand: int):
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeeze, 1)
        self.near = nn.Conv2d(squeeze, expand, 1)
        self.wide = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.near(x)), F.relu(self.wide(x))], dim=1)


class Model(nn.Module):
    def __init__(self, classes: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True),
            Fire(64, 16, 64), Fire(128, 16, 64), nn.MaxPool2d(3, 2, ceil_mode=True),
            Fire(128, 32, 128), Fire(256, 32, 128), nn.MaxPool2d(3, 2, ceil_mode=True),
            Fire(256, 48, 192), Fire(384, 64, 256),
        )  # fmt: skip
        self.head = nn.Conv2d(512, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.head(self.body(x))).mean(dim=(2, 3))


def get_inputs():
    return [torch.rand(96, 3, 256, 256)]


def get_init_inputs():
    return [600]
