"""Cross entropy over a vocabulary

Family: loss
Size: large
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(scores, target)


def get_inputs():
    return [torch.randn(12288, 32000), torch.randint(0, 32000, (12288,))]


def get_init_inputs():
    return []
