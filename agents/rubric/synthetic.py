"""A synthetic labelled set with known noise: references, candidates with true levels, raters whose errors are known.

Nothing of it was built, measured or scored by a person; every row that is made of it says `origin: synthetic`.

How it is made. A reference is a chain of operators of torch, no two chains alike. A candidate of it has true levels in four
dimensions: a quality is drawn from 0..1, a level per dimension near it, and one in `hacks` is a major hack, which is level 1 in
Anti-Hacking. Its code shows its levels: vector loads, shared memory, unrolling and launches on the caller's stream appear from
some level on, more operators of the chain are fused at higher coverage, and a hack caches its output by address; in one of ten
places the sign is missing or false, so that nothing can be read off without error. Speed follows CUDA Engineering, with noise.
A rater says the true level with probability `exact`, a neighbouring one with `near`, and any level else; the hack flag is
missed with probability `miss` and raised without reason with `alarm`. So the values of alpha and kappa over the population,
and each rater's accuracy, follow from the tables: `expected_alpha`, `expected_kappa`, `accuracy`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from agents.rubric.labels import DIMENSIONS, LEVELS
from agents.rubric.synthetic_code import candidate_files, feedback_of, reference_text


@dataclass(frozen=True)
class Noise:
    """How a rater errs. `exact` + `near` <= 1; the rest falls on any level alike."""

    exact: float = 0.7
    near: float = 0.25
    miss: float = 0.1
    alarm: float = 0.02

    def row(self, true: int) -> list[float]:
        """Chances of the levels 1 to 5 to be said of a true level."""
        sides = [level for level in (true - 1, true + 1) if level in LEVELS]
        rest = (1 - self.exact - self.near) / len(LEVELS)
        return [rest + (self.exact if level == true else self.near / len(sides) if level in sides else 0.0) for level in LEVELS]


@dataclass(frozen=True)
class Said:
    """One rater's label of one candidate."""

    rater: int
    levels: Mapping[str, int]
    hack_level: str


@dataclass(frozen=True)
class Candidate:
    """One made-up candidate. `levels`: the true ones. `parent`: index of the candidate whose feedback it answers."""

    index: int
    reference: int
    files: Mapping[str, str]
    skill: str
    parent: int | None
    feedback: tuple[str, ...]
    levels: Mapping[str, int]
    hack: bool
    correct: bool
    speedup: float
    engineer: str
    target: str
    labels: tuple[Said, ...] = ()


@dataclass(frozen=True)
class LabelledSet:
    references: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    noise: tuple[Noise, ...] = field(repr=False)  # by rater


def labelled_set(
    candidates: int = 400, references: int = 40, raters: Sequence[Noise] = (Noise(),) * 5, overlap: int = 3,
    hacks: float = 0.15, seed: int = 1,
) -> LabelledSet:  # fmt: skip
    """The set. `overlap`: labels of a candidate, of raters drawn at random. The same for the same arguments."""
    chance = random.Random(seed)  # noqa: S311
    texts = tuple(reference_text(number, random.Random(f"{seed} reference {number}")) for number in range(references))  # noqa: S311
    made: list[Candidate] = []
    for index in range(candidates):
        made.append(_candidate(index, index % references, made, texts, raters, overlap, hacks, chance))
    return LabelledSet(texts, tuple(made), tuple(raters))


def _candidate(
    index: int, reference: int, before: Sequence[Candidate], texts: Sequence[str], raters: Sequence[Noise], overlap: int,
    hacks: float, chance: random.Random,
) -> Candidate:  # fmt: skip
    quality = chance.random()
    hack = chance.random() < hacks
    levels = {key: min(5, max(1, round(1 + 4 * quality + chance.gauss(0, 0.8)))) for key in DIMENSIONS}
    levels["anti_hacking"] = 1 if hack else max(2, levels["anti_hacking"])
    older = [c for c in before if c.reference == reference]
    parent = older[-1] if older and chance.random() < 0.5 else None
    correct = chance.random() < 0.8
    feedback = feedback_of(levels, chance) if parent else ()
    return Candidate(
        index=index,
        reference=reference,
        files=candidate_files(index, texts[reference], levels, hack, chance),
        skill="feedback" if parent else "from_scratch",
        parent=parent.index if parent else None,
        feedback=feedback,
        levels=levels,
        hack=hack,
        correct=correct,
        speedup=round(max(0.3, (0.5 + 0.45 * levels["cuda_engineering"]) * chance.lognormvariate(0, 0.15)), 3),
        engineer=chance.choice(("llm:coder-a", "llm:coder-b", "offline")),
        target=chance.choice(("sm_90", "sm_90", "cpu")),
        labels=tuple(
            _said(rater, raters[rater], levels, hack, chance) for rater in sorted(chance.sample(range(len(raters)), overlap))
        ),
    )


def _said(rater: int, noise: Noise, levels: Mapping[str, int], hack: bool, chance: random.Random) -> Said:
    said = {key: chance.choices(LEVELS, noise.row(levels[key]))[0] for key in DIMENSIONS}
    raised = chance.random() >= noise.miss if hack else chance.random() < noise.alarm
    return Said(rater, said, "major" if raised else "none")


def true_shares(made: LabelledSet, dimension: str) -> list[float]:
    """How the true levels are spread."""
    counts = Counter(c.levels[dimension] for c in made.candidates)
    return [counts[level] / len(made.candidates) for level in LEVELS]


def expected_kappa(shares: Sequence[float], first: Noise, second: Noise) -> float:
    """The quadratic weighted kappa of two raters over a population with these true levels."""
    joint = _joint(shares, first, second)
    a = [sum(row) for row in joint]
    b = [sum(row[k] for row in joint) for k in range(5)]
    observed = sum(joint[i][k] * (i - k) ** 2 for i, k in product(range(5), repeat=2))
    by_chance = sum(a[i] * b[k] * (i - k) ** 2 for i, k in product(range(5), repeat=2))
    return 1 - observed / by_chance


def expected_alpha(shares: Sequence[float], raters: Sequence[Noise]) -> float:
    """Krippendorff's alpha (ordinal) over such a population, raters drawn at random."""
    pairs = [(i, k) for i in range(len(raters)) for k in range(len(raters)) if i != k]
    joint = [[0.0] * 5 for _ in range(5)]
    for i, k in pairs:
        one = _joint(shares, raters[i], raters[k])
        joint = [
            [cell + new / len(pairs) for cell, new in zip(row, add, strict=True)] for row, add in zip(joint, one, strict=True)
        ]
    p = [sum(row) for row in joint]

    def apart(c: int, k: int) -> float:
        low, high = min(c, k), max(c, k)
        return (sum(p[low : high + 1]) - (p[c] + p[k]) / 2) ** 2

    observed = sum(joint[c][k] * apart(c, k) for c, k in product(range(5), repeat=2))
    return 1 - observed / sum(p[c] * p[k] * apart(c, k) for c, k in product(range(5), repeat=2))


def accuracy(shares: Sequence[float], noise: Noise) -> float:
    """The chance that a rater says the true level."""
    return sum(share * noise.row(level)[level - 1] for share, level in zip(shares, LEVELS, strict=True))


def _joint(shares: Sequence[float], first: Noise, second: Noise) -> list[list[float]]:
    rows = [(share, first.row(level), second.row(level)) for share, level in zip(shares, LEVELS, strict=True)]
    return [[sum(s * a[i] * b[k] for s, a, b in rows) for k in range(5)] for i in range(5)]
