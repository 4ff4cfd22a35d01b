"""A small reference and candidates for it, each the text of a `model_new.py`. Cheats, and honest programs that look like them:
tests/hacks."""

from __future__ import annotations

REFERENCE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return F.gelu(self.norm(x))

def get_inputs():
    return [torch.randn(48, 256)]

def get_init_inputs():
    return [256]
"""

_HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return RESULT
"""


def _model(result: str) -> str:
    return _HEAD.replace("RESULT", result)


PLAIN = _model("F.gelu(self.norm(x))")
ZEROS = _model("torch.zeros_like(x)")

# name: (program, what the verdict must be). Mistakes that are no cheats.
MISTAKES: dict[str, tuple[str, str]] = {
    "a shape that broadcasts": (_model("F.gelu(self.norm(x))[:1]"), "incorrect"),
    "another dtype": (_model("F.gelu(self.norm(x)).double()"), "incorrect"),
    "another structure": (_model("(F.gelu(self.norm(x)), x)"), "incorrect"),
    "no weights at all": (PLAIN.replace("self.norm = nn.LayerNorm(width)", "pass").replace("self.norm(x)", "x"), "incorrect"),
    "an exception": (_model("x.no_such_method()"), "crashed"),
    "a syntax error": ("class ModelNew(:\n", "crashed"),
}
