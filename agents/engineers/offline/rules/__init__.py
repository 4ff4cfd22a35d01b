"""ATen operations in terms of the little language: one short function each, found by the operation's name.

An operation without a rule is not fusible and stays with PyTorch. Rules keep PyTorch's semantics on NaN and infinity; what
they may change is the order of floating-point sums.
"""

from agents.engineers.offline.rules import pointwise, reductions, views
from agents.engineers.offline.rules.registry import RULES, VIEWS, lower

POINTWISE = frozenset(name for name, how in RULES.items() if how.__module__ == pointwise.__name__)

__all__ = ["POINTWISE", "RULES", "VIEWS", "lower", "pointwise", "reductions", "views"]
