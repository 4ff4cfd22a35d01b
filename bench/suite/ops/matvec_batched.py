"""One matrix and one vector for each member of a batch

Family: matmul
Size: small
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, matrices: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bij,bj->bi", matrices, vectors)


def get_inputs():
    return [torch.randn(128, 512, 700), torch.randn(128, 700)]


def get_init_inputs():
    return []
