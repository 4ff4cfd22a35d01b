"""Product with a transposed left operand and sizes that are no powers of two

Family: matmul
Size: large
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a.t(), b)


def get_inputs():
    return [torch.randn(6500, 3000), torch.randn(6500, 3620)]


def get_init_inputs():
    return []
