"""A state space in chunks: products inside, a decay across

Family: state-space
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, chunk: int):
        super().__init__()
        self.chunk = chunk

    def decay(self, a: torch.Tensor) -> torch.Tensor:
        total = torch.cumsum(a, dim=-1)
        gap = total[..., :, None] - total[..., None, :]
        keep = torch.tril(torch.ones(a.shape[-1], a.shape[-1], dtype=torch.bool, device=a.device))
        return torch.exp(gap.masked_fill(~keep, float("-inf")))

    def forward(self, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        n, t, h, p = x.shape
        m = t // self.chunk
        x, b, c = (y.view(n, m, self.chunk, h, -1) for y in (x, b, c))
        a = a.view(n, m, self.chunk, h).permute(0, 3, 1, 2)
        total = torch.cumsum(a, dim=-1)
        scores = torch.einsum("nmlhs,nmkhs->nhmlk", c, b) * self.decay(a)
        inside = torch.einsum("nhmlk,nmkhp->nmlhp", scores, x)
        left = torch.exp(total[..., -1:] - total)
        states = torch.einsum("nmlhs,nhml,nmlhp->nmhps", b, left, x)
        across = self.decay(F.pad(total[..., -1], (1, 0)))
        states = torch.cat([torch.zeros_like(states[:, :1]), states], dim=1)
        states = torch.einsum("nhzm,nmhps->nzhps", across, states)[:, :-1]
        outside = torch.einsum("nmlhs,nmhps,nhml->nmlhp", c, states, torch.exp(total))
        return (inside + outside).reshape(n, t, h, p)


def get_inputs():
    n, t, h, p, s = 16, 2048, 20, 64, 48
    return [torch.randn(n, t, h, p), -torch.rand(n, t, h), torch.randn(n, t, h, s), torch.randn(n, t, h, s)]


def get_init_inputs():
    return [64]
