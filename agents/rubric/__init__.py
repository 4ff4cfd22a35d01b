"""What labels under the rubric come to: levels, their aggregate, raters' confusion, and a synthetic set with known noise.

`labels` makes one label of several; `dawid_skene` estimates who errs how; `synthetic` generates candidates, true levels and
raters whose errors are known. Pure functions, standard library only.
"""

from agents.rubric.labels import DIMENSIONS, LEVELS, Given, Made, aggregate

__all__ = ["DIMENSIONS", "LEVELS", "Given", "Made", "aggregate"]
