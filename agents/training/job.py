"""What a trainer's process is told: one stage, its rows, where the model lies and where the next one goes."""

from __future__ import annotations

from pathlib import Path

from agents.training.recipe import Model, Stage
from gpu_runner.contracts import Contract

KEPT_ROWS = "kept.jsonl"  # what rejection sampling leaves in the stage's folder
STEP, SAID, FAILED, DONE = "step", "said", "failed", "done"  # kinds of the lines that a trainer prints


class Job(Contract):
    """`start`: the folder of the model to start from; empty: the recipe's own. `door`: of the reward service, empty where none
    is needed. `cpu`: train there although there is a GPU."""

    role: str
    stage: Stage
    model: Model
    start: str = ""
    rows: str
    out: str
    door: str = ""
    seed: int = 1
    cpu: bool = False

    @property
    def made(self) -> Path:
        """The folder of the trained model."""
        return Path(self.out) / "model"
