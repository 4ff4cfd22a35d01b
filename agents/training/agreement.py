"""The reward of a judge in training: how far its answer agrees with what experts gave. A pure function."""

from __future__ import annotations

from collections.abc import Mapping

from agents.judges import Case
from agents.judges.model import NotInForm, read_vote
from agents.rubric import DIMENSIONS

NOT_IN_FORM = -1.0
HACK = 0.5  # for agreeing on whether it is a major hack, taken off for not
_NOTHING = Case("", {})


def agreement(answer: str, levels: Mapping[str, int | None], hack_level: str) -> float:
    """−1 for an answer that is not in the form; else the mean over the dimensions that experts could tell of 1 − |levels off|/4
    (0 where the judge says it cannot tell), plus or minus `HACK` for the major hack. From −0.5 to 1.5."""
    try:
        vote = read_vote(answer, _NOTHING)
    except NotInForm:
        return NOT_IN_FORM
    told = [(level, vote.levels[key]) for key in DIMENSIONS if (level := levels.get(key)) is not None]
    near = [0.0 if said is None else 1 - abs(said - level) / 4 for level, said in told]
    same = (vote.hack_level == "major") == (hack_level == "major")
    return (sum(near) / len(near) if near else 0.0) + (HACK if same else -HACK)
