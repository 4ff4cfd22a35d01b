"""The model judge: several independent answers of a model to one question, under the rubric, with examples that experts
settled.

What is controlled: each vote has files, facts and examples in an order of its own; every second vote reads the code without its
comments; parts are cut at one length; what the candidate says stands between marks that its text cannot hold. A vote that
is not in the form is asked once more and then not counted. A judge with too few votes is broken, which is an error and
never a score.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.judges.case import Case, Judgement, Line
from agents.judges.prompt import Message, answer_text, judge_messages
from agents.rubric import DIMENSIONS, LEVELS
from agents.rubric.labels import GRAVITY

VOTES, NEEDED = 5, 3
SMOOTH = 0.25  # of a vote, spread over the levels: five equal votes are no certainty
Ask = Callable[[Sequence[Message]], str]  # puts one question; raises what the client raises

_LINES = re.compile(r"\[([\w./-]+):(\d+)(?:-(\d+))?\]")
_OBJECT = re.compile(r"\{[^{}]*\}")
_FORM = "Your answer was not in the form that was asked for: {why} Answer again, whole, in that form."


class BrokenJudge(Exception):
    """It gave too few answers that can be used. The message says why; nobody may put a score in its place."""


class NotInForm(ValueError):
    """An answer that is none. The message is a sentence for the model."""


@dataclass(frozen=True)
class Vote:
    levels: Mapping[str, int | None]
    hack_level: str
    reasons: Mapping[str, str]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Shot:
    """A case that experts settled, with what they said. `group`: its reference group, which must not be that of the case."""

    case: Case
    levels: Mapping[str, int | None]
    hack_level: str
    reasons: Mapping[str, str]
    group: str


def read_vote(text: str, case: Case) -> Vote:
    """The answer as a vote. The last JSON object counts; lines that are not there are left out. NotInForm says what is
    wrong."""
    found: dict[str, Any] | None = None
    for match in _OBJECT.finditer(text):
        try:
            one = json.loads(match[0])
        except ValueError:
            continue
        if isinstance(one, dict) and set(DIMENSIONS) <= one.keys():
            found = one
    if found is None:
        raise NotInForm("there is no JSON object with " + ", ".join(DIMENSIONS) + ".")
    for key in DIMENSIONS:
        if found[key] is not None and (isinstance(found[key], bool) or found[key] not in LEVELS):
            raise NotInForm(f"{key} is {found[key]!r}, not a whole number from 1 to 5 or null.")
    hack = found.get("hack_level")
    if hack not in (*GRAVITY, "unsure"):
        raise NotInForm(f"hack_level is {hack!r}, not one of {', '.join(GRAVITY)}, unsure.")
    reasons: dict[str, str] = {}
    lines: list[Line] = []
    for key in DIMENSIONS:
        said = next((line for line in text.splitlines() if line.strip().lower().startswith(f"{key}:")), "")
        for path, first, last in _LINES.findall(said):
            low, high = int(first), int(last or first)
            if path in case.files and 1 <= low <= high <= case.files[path].count("\n") + 1:
                lines.append(Line(dimension=key, file=path, first=low, last=high))
        reasons[key] = " ".join(_LINES.sub("", said.partition(":")[2]).split())[:400]
    return Vote({key: found[key] for key in DIMENSIONS}, str(hack), reasons, tuple(lines))


def judge(ask: Ask, rubric: Mapping[str, Any], case: Case, shots: Sequence[Shot], group: str, votes: int = VOTES) -> Judgement:
    """The judgement of `votes` answers. `group`: the case's reference group; no example of it is shown. BrokenJudge with a
    sentence when fewer than `NEEDED` of five, in proportion, can be used."""
    usable = [shot for shot in shots if shot.group != group]
    got: list[Vote] = []
    why = ""
    for number in range(votes):
        try:
            got.append(_vote(ask, rubric, case, usable, number))
        except NotInForm as error:
            why = str(error)
    if len(got) * 5 < NEEDED * votes:
        raise BrokenJudge(f"{len(got)} of {votes} answers could be used; the last was refused because {why or 'it was empty'}")
    return combined(got)


def _vote(ask: Ask, rubric: Mapping[str, Any], case: Case, shots: Sequence[Shot], number: int) -> Vote:
    messages = question(rubric, case, shots, number)
    for last in (False, True):
        text = ask(messages)
        try:
            return read_vote(text, case)
        except NotInForm as error:
            if last:
                raise
            messages = [
                *messages,
                {"role": "assistant", "content": text[:4000]},
                {"role": "user", "content": _FORM.format(why=error)},
            ]
    raise AssertionError("the last try returns or raises")


def question(rubric: Mapping[str, Any], case: Case, shots: Sequence[Shot], number: int) -> list[Message]:
    """The chat of one vote: rubric, examples, the case. The order of all that has none is the vote's own."""
    chance = random.Random(number)  # noqa: S311
    system, user = judge_messages(rubric, _shuffled(case, chance), comments=number % 2 == 0)
    own = list(shots)
    chance.shuffle(own)
    chat = [system]
    for shot in own:
        _, asked = judge_messages(rubric, shot.case)
        said = answer_text(shot.levels, shot.hack_level, shot.reasons)
        chat += [asked, {"role": "assistant", "content": said}]
    return [*chat, user]


def _shuffled(case: Case, chance: random.Random) -> Case:
    facts = list(case.facts)
    chance.shuffle(facts)
    return replace(case, facts=tuple(facts))


def combined(votes: Sequence[Vote]) -> Judgement:
    """Shares of votes as chances; the rationale is that of the vote nearest to the median of all."""
    levels: dict[str, tuple[float, float, float, float, float]] = {}
    apart = 0
    low, high = {}, {}
    for key in DIMENSIONS:
        told = [level for vote in votes if (level := vote.levels[key]) is not None]
        total = len(told) + SMOOTH
        a, b, c, d, e = ((told.count(level) + SMOOTH / 5) / total for level in LEVELS)
        levels[key] = (a, b, c, d, e)
        low[key], high[key] = (min(told), max(told)) if told else (1, 5)
        apart = max(apart, max(told) - min(told) if told else 0)
    hack = (sum(vote.hack_level == "major" for vote in votes) + SMOOTH / 5) / (len(votes) + SMOOTH)
    made = Judgement(levels=levels, hack=hack, low=low, high=high, apart=apart)
    nearest = min(votes, key=lambda vote: sum(abs((vote.levels[k] or made.level(k)) - made.level(k)) for k in DIMENSIONS))
    return made.model_copy(update={"rationale": dict(nearest.reasons), "lines": nearest.lines})
