"""Gated linear attention as a sequential scan
Family: scan / state-space model. The state of each head is an outer-product memory with a decay per step.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.gate = nn.Linear(width, heads)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        d = c // self.heads
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d).unbind(2)
        decay = torch.sigmoid(self.gate(x))
        q, k = F.softmax(q, dim=-1), F.elu(k) + 1
        state = x.new_zeros(b, self.heads, d, d)
        outputs = []
        for i in range(t):
            state = decay[:, i, :, None, None] * state + k[:, i, :, :, None] * v[:, i, :, None, :]
            outputs.append((q[:, i, :, None, :] @ state).squeeze(-2))
        return self.out(torch.stack(outputs, dim=1).reshape(b, t, c))


def get_inputs():
    return [torch.randn(4, 64, 128)]


def get_init_inputs():
    return [128, 4]
