"""GroupNorm, scale and shift by a time embedding, SiLU
Family: normalisation. The head of a diffusion model's residual block (AdaGN).
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, channels: int, groups: int, embed: int):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        self.proj = nn.Linear(embed, 2 * channels)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        scale, shift = self.proj(F.silu(t)).chunk(2, dim=1)
        h = self.norm(x)
        h = h * (1 + scale[:, :, None, None]) + shift[:, :, None, None]
        return F.silu(h)


def get_inputs():
    return [torch.randn(8, 128, 48, 48), torch.randn(8, 256)]


def get_init_inputs():
    return [128, 32, 256]
