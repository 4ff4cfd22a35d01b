"""Recipes: a training run as a checked file, stage by stage.

A recipe lies in `recipes/NAME.toml`. Its settings are those of TRL's own configurations, by their names. For a smoke run the
same stages run with a tiny random model: of a stage's settings only what shapes the algorithm stays, the rest is ours.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from agents.training.service.contracts import Terms
from gpu_runner.contracts import Contract

FOLDER = Path(__file__).resolve().parent / "recipes"
TINY = "tiny"  # the name of the model that is made up on the spot
Kind = Literal["sft", "rejection", "grpo"]

# Settings that say how is learnt, not on how much: a smoke run keeps them.
KEPT = frozenset(
    "beta epsilon epsilon_high num_iterations scale_rewards loss_type temperature top_p top_k completion_only_loss".split()
)
_SMALL: dict[str, Any] = {
    "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "learning_rate": 1e-2, "lr_scheduler_type": "constant",
    "logging_steps": 1, "save_strategy": "no", "report_to": [], "bf16": False, "activation_checkpointing": False,
    "dataloader_num_workers": 0, "disable_tqdm": True,
}  # fmt: skip
SMOKE: dict[Kind, dict[str, Any]] = {
    "sft": {**_SMALL, "max_steps": 20, "max_length": 512},
    "rejection": {**_SMALL, "max_steps": 10, "max_length": 512},
    "grpo": {
        **_SMALL, "max_steps": 6, "per_device_train_batch_size": 32, "num_generations": 32, "max_completion_length": 3,
        "learning_rate": 1e-2,
    },
}  # fmt: skip
SMOKE_TERMS = {"check_s": 15.0, "time_s": 60.0, "parallel": 2, "with_compile": False, "protocol": "quick"}


class BadRecipe(ValueError):
    """A recipe that is not there, or not right. The message is a sentence."""


class Lora(Contract):
    r: int = Field(ge=1)
    alpha: int = Field(ge=1)
    target: str = "all-linear"
    dropout: float = Field(default=0.0, ge=0, lt=1)


class Model(Contract):
    """`name`: a folder or a name on the hub, or `tiny`. `lora` None: all weights are trained."""

    name: str
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    lora: Lora | None = None


class Launch(Contract):
    """`processes`: one per GPU that trains. `devices`, `service_devices`: what CUDA shows the trainer and the reward service,
    as CUDA_VISIBLE_DEVICES has it; empty: all. A device that is timed on trains nothing."""

    processes: int = Field(default=1, ge=1, le=1024)
    devices: str = ""
    service_devices: str = ""


class Stage(Contract):
    """`data`: the release's config that the rows are of. `reward`: what a Coder's service prices by; None for a judge, whose
    reward is how far it agrees with the experts. `most_failed`: share of the last candidates without a reward through the
    machine's fault from which the run stops. `longest_prompt` in tokens: rows with more are left out. Of a rejection stage:
    `samples` per row, `max_tokens` of each, `least` reward that is kept, `keep` per task at most; `server`: an
    OpenAI-compatible address of the same model to sample from, empty: transformers' own generation.
    """

    name: str = Field(pattern=r"^[a-z0-9-]{1,40}$")
    kind: Kind
    data: str
    settings: dict[str, Any] = {}
    reward: Terms | None = None
    most_failed: float = Field(default=0.2, gt=0, le=1)
    samples: int = Field(default=16, ge=1, le=4096)
    least: float = 0.5
    keep: int = Field(default=4, ge=1)
    server: str = ""
    max_tokens: int = Field(default=16_384, ge=1)
    longest_prompt: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _priced(self) -> Stage:
        if self.kind == "rejection" and self.reward is None:
            raise ValueError(f"the stage {self.name!r} keeps what is paid, so it needs a reward")
        if self.kind == "sft" and self.reward is not None:
            raise ValueError(f"the stage {self.name!r} learns from what is written down, so it has no reward")
        return self

    def small(self) -> Stage:
        """The stage as a smoke run has it."""
        kept = {key: value for key, value in self.settings.items() if key in KEPT}
        reward = self.reward.model_copy(update=SMOKE_TERMS) if self.reward else None
        own = {"samples": 192, "max_tokens": 3} if self.kind == "rejection" else {}
        if self.kind == "grpo" and self.reward is None:
            kept["max_completion_length"] = 12
        settings = SMOKE[self.kind] | kept
        return self.model_copy(update={"settings": settings, "reward": reward, "server": "", "longest_prompt": None, **own})


class Recipe(Contract):
    """`run`: what was run of it, in a sentence. `sources`: where its settings come from, by what they are about."""

    name: str
    title: str
    role: Literal["judge", "coder"]
    run: str
    sources: dict[str, str] = {}
    model: Model
    launch: Launch = Launch()
    stages: tuple[Stage, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _whole(self) -> Recipe:
        names = [stage.name for stage in self.stages]
        if len(set(names)) < len(names):
            raise ValueError("two stages have one name")
        return self

    def small(self) -> Recipe:
        """The same stages with a tiny random model, in one process."""
        stages = tuple(stage.small() for stage in self.stages)
        return self.model_copy(update={"model": Model(name=TINY, dtype="float32"), "launch": Launch(), "stages": stages})


def names() -> list[str]:
    """All recipes that there are."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read(name: str) -> Recipe:
    """The recipe of that name, or of a file that ends in `.toml`. Raises BadRecipe."""
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not name.endswith(".toml") and name not in names():
        raise BadRecipe(f"There is no recipe {name!r}. There are {', '.join(names())}; a file of your own ends in .toml.")
    try:
        return Recipe.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise BadRecipe(f"The recipe {path} cannot be read: {error.strerror}.") from None
    except tomllib.TOMLDecodeError as error:
        raise BadRecipe(f"The recipe {path} is not valid TOML: {error}.") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadRecipe(
            f"The recipe {path} is not right: {where}: {str(first['msg']).removeprefix('Value error, ')}."
        ) from None
