"""What the reward service is asked and what it answers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from agents.reward import PRESETS, Inputs, Parameters
from gpu_runner.contracts import PROTOCOLS, Contract, Mode, Precision, Protocol

MOST_ITEMS = 4096  # of one batch
MOST_BODY = 256 << 20  # bytes of one batch
NO_PROGRAM = "no-program"  # the outcome of an answer that holds no candidate


class Item(Contract):
    """One candidate: `answer`, what a model wrote, read as the Coder's answers are (edits apply to `parent`); or its `files`.
    `task` and `points`: what was asked for, which only a judge reads."""

    reference: str
    entry: str = ""
    answer: str | None = None
    files: dict[str, str] | None = None
    parent: dict[str, str] = {}
    skill: Literal["from_scratch", "feedback"] = "from_scratch"
    target: str = "cpu"
    mode: Mode = Mode.EVAL
    precision: Precision = Precision.AS_REFERENCE
    require_own_kernels: bool = False
    task: str = ""
    points: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one(self) -> Item:
        if (self.answer is None) == (self.files is None):
            raise ValueError("a candidate is either an answer or files")
        return self


class Priced(Contract):
    """What came of one item. `error` is set exactly where `reward` is None: the machine's or the judge's trouble, or, with
    `bad_reference`, that of the reference; it says nothing of the candidate. `outcome`: its verdict (`hack:<class>` where one
    is proven), or `no-program`. `inputs`: what the reward was computed from. `known`: the same candidate was measured before.
    `seconds`: that its measurement took."""

    reward: float | None = None
    error: str = ""
    bad_reference: bool = False
    outcome: str = ""
    sentence: str = ""
    inputs: Inputs | None = None
    sha256: str = ""  # of the candidate's files
    known: bool = False
    seconds: float = 0.0


class Batch(Contract):
    items: tuple[Item, ...] = Field(max_length=MOST_ITEMS)


class Prices(Contract):
    results: tuple[Priced, ...]


class Terms(Contract):
    """What a service prices by: a preset with single parameters changed, the protocol, limits in seconds per candidate, how
    many candidates are checked at once. `with_compile`: torch.compile's default mode is timed as well, which the third
    milestone needs and which costs its compilation once per reference."""

    preset: str = "paper"
    change: dict[str, Any] = {}
    protocol: str = "quick"
    with_compile: bool = False
    check_s: float = Field(default=120.0, gt=0, le=3600)
    time_s: float = Field(default=240.0, gt=0, le=3600)
    parallel: int = Field(default=2, ge=1, le=64)

    @model_validator(mode="after")
    def _known(self) -> Terms:
        if self.preset not in PRESETS:
            raise ValueError(f"there is no reward preset {self.preset!r}; there are {', '.join(sorted(PRESETS))}")
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"there is no protocol {self.protocol!r}; there are {', '.join(sorted(PROTOCOLS))}")
        unknown = sorted(self.change.keys() - Parameters.model_fields.keys())
        if unknown:
            raise ValueError(f"the reward has no parameter {unknown[0]!r}; it has {', '.join(sorted(Parameters.model_fields))}")
        _ = self.parameters
        return self

    @property
    def parameters(self) -> Parameters:
        return Parameters.model_validate(PRESETS[self.preset].parameters.model_dump() | self.change)

    @property
    def needs_levels(self) -> bool:
        """Whether a right and honest candidate can be priced only with levels."""
        by = self.parameters
        return by.form == "shaped" and (by.rubric_from_scratch > 0 or by.rubric_feedback > 0)

    @property
    def measured_by(self) -> Protocol:
        found = PROTOCOLS[self.protocol]
        if self.with_compile and "default" not in found.arms:
            found = found.model_copy(update={"name": f"{found.name}-compile", "arms": (*found.arms, "default")})
        return found
