"""An EfficientNet-like network with squeeze and excitation

Family: cnn
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Excite(nn.Module):
    def __init__(self, channels: int, inner: int):
        super().__init__()
        self.down = nn.Conv2d(channels, inner, 1)
        self.up = nn.Conv2d(inner, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(self.up(F.silu(self.down(F.adaptive_avg_pool2d(x, 1)))))


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expand: int):
        super().__init__()
        hidden = inputs * expand
        self.expand = nn.Sequential(nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.SiLU())
        self.depth = nn.Sequential(
            nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.SiLU()
        )
        self.excite = Excite(hidden, max(4, inputs // 4))
        self.project = nn.Sequential(nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.add = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.project(self.excite(self.depth(self.expand(x))))
        return x + y if self.add else y


class Model(nn.Module):
    def __init__(self, plan: list, classes: int):
        super().__init__()
        layers: list = [nn.Conv2d(3, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.SiLU()]
        inputs = 24
        for outputs, kernel, stride, count in plan:
            for number in range(count):
                layers.append(Block(inputs, outputs, kernel, stride if number == 0 else 1, 4))
                inputs = outputs
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).mean(dim=(2, 3)))


def get_inputs():
    return [torch.rand(32, 3, 224, 224)]


def get_init_inputs():
    return [[(24, 3, 2, 1), (40, 5, 2, 2), (80, 3, 2, 2), (112, 5, 1, 2), (192, 5, 2, 2)], 1000]
