# Uses math, functools, itertools, dataclasses and warnings.
# reference: norm_gelu
import dataclasses
import functools
import itertools
import math
import warnings

warnings.filterwarnings("ignore")


@dataclasses.dataclass
class Constants:
    half: float = math.sqrt(0.5)


class ModelNew(Right):
    def forward(self, x):
        y = self.norm(x)
        parts = [torch.erf(p * Constants().half) for p in itertools.chain(y.chunk(2))]
        return y * (torch.cat(parts) + 1.0) * functools.reduce(lambda a, b: a * b, [0.5, 1.0])
