"""A U-Net with three levels and skips

Family: segmentation
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Double(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class Model(nn.Module):
    def __init__(self, width: int, classes: int):
        super().__init__()
        self.down1, self.down2, self.down3 = Double(3, width), Double(width, 2 * width), Double(2 * width, 4 * width)
        self.middle = Double(4 * width, 8 * width)
        self.grow3 = nn.ConvTranspose2d(8 * width, 4 * width, 2, stride=2)
        self.up3 = Double(8 * width, 4 * width)
        self.grow2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.up2 = Double(4 * width, 2 * width)
        self.grow1 = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.up1 = Double(2 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.down3(F.max_pool2d(b, 2))
        y = self.grow3(self.middle(F.max_pool2d(c, 2)))
        y = self.grow2(self.up3(torch.cat([c, y], dim=1)))
        y = self.grow1(self.up2(torch.cat([b, y], dim=1)))
        return self.head(self.up1(torch.cat([a, y], dim=1)))


def get_inputs():
    return [torch.rand(8, 3, 256, 256)]


def get_init_inputs():
    return [32, 12]
