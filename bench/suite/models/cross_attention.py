"""Few queries attend to a long context, several times

Family: transformer
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Cross(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.proj = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q = self.q(self.norm(x)).view(b, n, self.heads, -1).transpose(1, 2)
        k, v = self.kv(context).view(b, context.shape[1], 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.proj(y.transpose(1, 2).reshape(b, n, c))


class Model(nn.Module):
    def __init__(self, queries: int, width: int, heads: int, depth: int):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(queries, width))
        self.layers = nn.ModuleList(Cross(width, heads) for _ in range(depth))

    def forward(self, context: torch.Tensor) -> torch.Tensor:
        x = self.queries.expand(context.shape[0], -1, -1)
        for layer in self.layers:
            x = layer(x, context)
        return x


def get_inputs():
    return [torch.randn(8, 3000, 512)]


def get_init_inputs():
    return [160, 512, 8, 4]
