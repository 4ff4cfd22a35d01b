import time

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(1024)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    time.sleep(0.1)
    return [torch.randn(64, 1024)]
