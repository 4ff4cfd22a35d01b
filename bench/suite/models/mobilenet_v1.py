"""A MobileNet-like network of separable convolutions

Family: cnn
Size: large
"""

import torch
import torch.nn as nn


def separable(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False), nn.BatchNorm2d(inputs), nn.ReLU6(inplace=True),
        nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU6(inplace=True),
    )  # fmt: skip


class Model(nn.Module):
    def __init__(self, plan: list, classes: int):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6(inplace=True))
        layers: list = []
        inputs = 32
        for outputs, stride in plan:
            layers.append(separable(inputs, outputs, stride))
            inputs = outputs
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.stem(x)).mean([2, 3]))


def get_inputs():
    return [torch.rand(64, 3, 224, 224)]


def get_init_inputs():
    return [[(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1), (768, 2)], 1000]
