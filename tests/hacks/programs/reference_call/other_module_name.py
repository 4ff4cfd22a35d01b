# Imports the reference under its file's name.
# reference: scale_shift
# prelude: none
# caught by: the reference is in another process
import torch
from reference import Model


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Model()

    def forward(self, x):
        return self.inner(x)
