import time

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x).cumsum(-1)


def get_inputs():
    time.sleep(0.1)
    return [torch.randn(64, 1024)]
