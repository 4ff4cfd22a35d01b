"""The reward of a candidate: a pure function of its measured facts, its rubric levels and parameters that a person can read.

`form` has the function, `presets` the named parameters. Every stored reward keeps its inputs and parameters, so that it can be
computed again from its row alone. Nothing but the contracts comes in.
"""

from agents.reward.form import Inputs, NotRated, Parameters, reward
from agents.reward.presets import PRESETS

__all__ = ["PRESETS", "Inputs", "NotRated", "Parameters", "reward"]
