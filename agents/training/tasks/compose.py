"""Programs made of up to five operators. A number and a seed give the same text every time, whatever was made before."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from agents.training.tasks.operators import OPERATORS, Shape, Step

MOST = 5
LARGEST = 1 << 25  # numbers of a tensor on the way
VERSION = "stitchweb.tasks/1"  # another one whenever a seed would give other programs


@dataclass(frozen=True)
class Proposal:
    """A reference that nobody has looked at yet. `operators`: their names in order."""

    number: int
    seed: int
    text: str
    operators: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"s{self.seed}-{self.number:05d}"


def propose(seed: int, number: int) -> Proposal:
    """The program of that number."""
    draw = random.Random(f"{VERSION}/{seed}/{number}")  # noqa: S311  the same every time
    start = _start(draw)
    steps = _steps(draw, start, draw.randint(1, MOST))
    return Proposal(number, seed, _text(start, steps), tuple(step.name for step in steps))


def _start(draw: random.Random) -> Shape:
    kind = draw.choice(("rows", "sequences", "images", "images"))
    if kind == "rows":
        return draw.choice((512, 1024, 2048, 4096, 8192)), draw.choice((512, 768, 1024, 2048))
    if kind == "sequences":
        return draw.choice((4, 8, 16, 32)), draw.choice((128, 256, 512, 1024)), draw.choice((128, 256, 384, 512))
    side = draw.choice((28, 32, 56, 64, 112))
    return draw.choice((4, 8, 16, 32)), draw.choice((16, 32, 48, 64, 96)), side, side


def _steps(draw: random.Random, start: Shape, count: int) -> list[Step]:
    shape, steps = start, list[Step]()
    while len(steps) < count:
        step = draw.choice(OPERATORS)(draw, shape)
        if step is None or math.prod(step.out) > LARGEST or (steps and step.name == steps[-1].name):
            continue
        if step.name == "residual" and (shape != start or not steps):
            continue
        steps.append(step)
        shape = step.out
        if len(shape) < 2:  # nothing of the catalogue follows on a vector
            break
    return steps


def _text(start: Shape, steps: list[Step]) -> str:
    members, lines = [], []
    for at, step in enumerate(steps, 1):
        name = f"self.m{at}"
        if step.member:
            members.append(f"        {name} = {step.member}\n")
        lines.append(f"        x = {step.line.replace('self.m', name)}\n")
    if any("x0" in step.line for step in steps):
        lines.insert(0, "        x0 = x\n")
    title = ", ".join(step.name for step in steps)
    init = "    def __init__(self):\n        super().__init__()\n" + "".join(members) + "\n" if members else ""
    uses = "import torch.nn.functional as F\n" if any("F." in step.line for step in steps) else ""
    body = "".join([*lines, "        return x\n"])
    return (
        f'"""A chain of operators: {title}\nFamily: composed\n"""\n\nimport torch\nimport torch.nn as nn\n{uses}\n\n'
        f"class Model(nn.Module):\n{init}    def forward(self, x: torch.Tensor) -> torch.Tensor:\n{body}\n\n"
        f"def get_inputs():\n    return [torch.randn({', '.join(map(str, start))})]\n\n\n"
        "def get_init_inputs():\n    return []\n"
    )
