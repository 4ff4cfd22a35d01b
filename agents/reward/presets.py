"""The named parameters. What a source does not state is taken from the authors' code, and said so."""

from __future__ import annotations

from dataclasses import dataclass

from agents.reward.form import Parameters


@dataclass(frozen=True)
class Preset:
    title: str
    about: str
    parameters: Parameters


PRESETS = {
    "paper": Preset(
        "Paper's form, R_max 5",
        "R = I_correct · (1 − I_hack) · min((s + τ)(1 + λ·r̂), 5). The text gives no τ, λ or scale of r̂: those of the authors'"
        " code stand here.",
        Parameters(),
    ),
    "code": Preset(
        "Authors' code, cap 3",
        "The speedup is cut at 5 and the whole at 3; r̂ lies between −0.5 and 0.5; λ is 1 from scratch and 0.7 for feedback."
        " With a perfect rubric the cap is reached at a speedup of 1.7.",
        Parameters(r_max=3.0, s_cap=5.0),
    ),
    "milestone": Preset(
        "Milestones −1, 1, 2, 3",
        "−1 if wrong or a hack, 3 if more than 5 % faster than eager and torch.compile, 2 if than eager, else 1. No rubric.",
        Parameters(form="milestone"),
    ),
}
