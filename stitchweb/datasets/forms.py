"""The controls of the reward page: every parameter, out of an address or a form, and what is wrong with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from pydantic import ValidationError

from agents.reward import PRESETS, Parameters
from agents.rubric import DIMENSIONS

FLAGS = ("low_end", "minor_counts", "strict")


@dataclass(frozen=True)
class Control:
    """One number of the form. `of`: the form of the reward that it belongs to, empty for both."""

    name: str
    label: str
    step: str
    low: float
    high: float
    of: str = ""
    hint: str = ""


NUMBERS = (
    Control("r_max", "R_max, the most a candidate gets", "0.1", 0.1, 1000, "shaped"),
    Control("s_cap", "Speedup is cut at", "0.1", 0.1, 1000, "shaped"),
    Control("tau", "τ, added to the speedup", "0.05", 0, 10, "shaped"),
    Control("rubric_from_scratch", "λ from scratch", "0.05", 0, 10, "shaped"),
    Control("rubric_feedback", "λ for feedback", "0.05", 0, 10, "shaped"),
    Control("centre", "Taken off the rubric’s mean (0 to 1)", "0.05", 0, 1, "shaped"),
    Control("margin", "Faster means by more than (share of time)", "0.01", 0, 0.99, "milestone"),
)
CHOICES = {
    "form": (("shaped", "shaped by the rubric"), ("milestone", "milestones −1, 1, 2, 3")),
    "hack_from": (
        ("either", "Verifier or labels"), ("verdict", "the Verifier alone"), ("labels", "labels alone"),
        ("nothing", "nobody: no penalty"),
    ),
}  # fmt: skip


def read(data: QueryDict, stored: tuple[str, Parameters]) -> tuple[str, Parameters, str]:
    """Preset, parameters and what is wrong. A preset that is named alone gives its parameters; nothing at all the stored
    ones."""
    preset = data.get("preset", "")
    if "form" not in data:
        if preset in PRESETS:
            return preset, PRESETS[preset].parameters, ""
        return (*stored, "")
    values: dict[str, Any] = {c.name: data.get(c.name, "") for c in NUMBERS if data.get(c.name, "") != ""}
    values |= {name: data.get(name, "") for name in CHOICES if data.get(name)}
    values |= {name: data.get(name) == "1" for name in FLAGS}
    values["weights"] = {key: word for key in DIMENSIONS if (word := data.get(f"weight-{key}", "")) not in ("", "1", "1.0")}
    try:
        made = Parameters.model_validate(values, strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "weights"
        label = next((c.label for c in NUMBERS if c.name == name), name.replace("_", " "))
        return (*stored, f"{label}: {first['msg'].removeprefix('Value error, ')}.")
    same = next((key for key, one in PRESETS.items() if one.parameters == made), "own")
    return same, made, ""


def controls(by: Parameters) -> dict[str, Any]:
    """For the template: each control with its value."""
    values: Mapping[str, Any] = by.model_dump()
    return {
        "numbers": [(c, f"{values[c.name]:g}") for c in NUMBERS],
        "choices": [(name, choices, values[name]) for name, choices in CHOICES.items()],
        "weights": [(key, key.replace("_", " ").capitalize(), f"{by.weights.get(key, 1.0):g}") for key in DIMENSIONS],
        "flags": {name: values[name] for name in FLAGS},
    }
