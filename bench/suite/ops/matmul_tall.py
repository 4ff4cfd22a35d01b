"""Many rows times a small square matrix

Family: matmul
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, rows: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        return rows @ matrix


def get_inputs():
    return [torch.randn(24576, 2048), torch.randn(2048, 1536)]


def get_init_inputs():
    return []
