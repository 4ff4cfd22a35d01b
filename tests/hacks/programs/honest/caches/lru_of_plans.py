# A plan per shape through functools.
# reference: row_mean
from functools import lru_cache


@lru_cache(maxsize=8)
def plan(shape):
    return 1.0 / shape[-1]


class ModelNew(Right):
    def forward(self, x):
        return x.sum(-1) * plan(x.shape)
