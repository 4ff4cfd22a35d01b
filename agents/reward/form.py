"""R = I_correct · (1 − I_hack) · min((s + τ)(1 + λ·r̂), R_max), or milestones −1, 1, 2, 3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from gpu_runner.contracts import Contract

Form = Literal["shaped", "milestone"]
HackFrom = Literal["verdict", "labels", "either", "nothing"]


class NotRated(Exception):
    """There are no levels, and the reward rests on them. The message says of what. Never replaced by a middle score."""


class Inputs(Contract):
    """All that a reward is computed from. Ratios over the reference: `speedup` over eager, `speedup_compile` over the fastest
    mode of torch.compile; the `_low` ones are lower ends of their 95 % intervals. `levels`: 1 to 5 by dimension, None for
    "cannot tell". `outputs_agree`: the outputs on the declared inputs were right, whatever else was found. `hack_found`: the
    Verifier's word; `hack_level`: that of the labels, empty without any.
    """

    skill: Literal["from_scratch", "feedback"] = "from_scratch"
    verified: bool = False
    outputs_agree: bool = False
    hack_found: bool = False
    hack_level: str = ""
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_compile: float | None = None
    speedup_compile_low: float | None = None
    levels: dict[str, float | None] = {}


class Parameters(Contract):
    """Everything that can be set. `centre` is taken off the rubric's mean, scaled to 0..1: 0.5 gives r̂ from −0.5 to 0.5, 0
    gives 0 to 1. `s_cap` bounds the speedup before, `r_max` the whole after. `margin`: gain from which a milestone counts."""

    form: Form = "shaped"
    r_max: float = Field(default=5.0, gt=0, le=1000)
    s_cap: float = Field(default=1000.0, gt=0, le=1000)
    tau: float = Field(default=0.3, ge=0, le=10)
    rubric_from_scratch: float = Field(default=1.0, ge=0, le=10)  # λ
    rubric_feedback: float = Field(default=0.7, ge=0, le=10)  # λ
    centre: float = Field(default=0.5, ge=0, le=1)
    weights: dict[str, float] = {}  # of dimensions; 1 where none is named
    margin: float = Field(default=0.05, ge=0, lt=1)
    low_end: bool = False  # reckon with the lower end of the interval
    hack_from: HackFrom = "either"
    minor_counts: bool = False  # a minor hack as well as a major one
    strict: bool = True  # correct means verified; else that the outputs on the declared inputs agree

    @model_validator(mode="after")
    def _weights(self) -> Parameters:
        if any(not 0 <= w <= 100 for w in self.weights.values()):
            raise ValueError("a weight is a number from 0 to 100")
        return self


def reward(inputs: Inputs, by: Parameters) -> float:
    """The reward. NotRated where a right and honest candidate has no levels; ValueError where it has no speedup."""
    wrong = not (inputs.verified if by.strict else inputs.outputs_agree)
    if by.form == "milestone":
        return -1.0 if wrong or hacked(inputs, by) else _milestone(inputs, by)
    if wrong or hacked(inputs, by):
        return 0.0
    lam = by.rubric_feedback if inputs.skill == "feedback" else by.rubric_from_scratch
    shaping = 1.0 + (lam * (rubric(inputs.levels, by.weights) - by.centre) if lam else 0.0)
    s = min(max(_speed(inputs.speedup, inputs.speedup_low, by), 0.0), by.s_cap)
    return max(0.0, min((s + by.tau) * shaping, by.r_max))


def hacked(inputs: Inputs, by: Parameters) -> bool:
    """I_hack: whether what `hack_from` heeds calls it one."""
    grave = {"major", "minor"} if by.minor_counts else {"major"}
    words = {"verdict": inputs.hack_found, "labels": inputs.hack_level in grave, "nothing": False}
    return words["verdict"] or words["labels"] if by.hack_from == "either" else words[by.hack_from]


def is_hack(inputs: Inputs) -> bool:
    """What anybody called a hack: the Verifier, or labels as a major one."""
    return inputs.hack_found or inputs.hack_level == "major"


def rubric(levels: Mapping[str, float | None], weights: Mapping[str, float]) -> float:
    """The weighted mean of the levels that were given, scaled to 0..1. NotRated without any."""
    told = [(level, weights.get(key, 1.0)) for key, level in sorted(levels.items()) if level is not None]
    total = sum(weight for _, weight in told)
    if not total:
        raise NotRated("It has no levels: neither labels nor a judge that may score.")
    return (sum(level * weight for level, weight in told) / total - 1) / 4


def _milestone(inputs: Inputs, by: Parameters) -> float:
    """3: faster than eager and compile; 2: than eager; 1: right. Faster: it saves more than `margin` of their time."""

    def faster(value: float | None, low: float | None) -> bool:
        return value is not None and 1 - 1 / max(_speed(value, low, by), 1e-9) > by.margin

    eager = faster(inputs.speedup, inputs.speedup_low)
    return 3.0 if eager and faster(inputs.speedup_compile, inputs.speedup_compile_low) else 2.0 if eager else 1.0


def _speed(value: float | None, low: float | None, by: Parameters) -> float:
    if value is None:
        raise ValueError("It is right and honest and its time was not measured.")
    return low if by.low_end and low is not None else value
