"""A local judge of the synthetic set: what a smoke run's shaped reward rests on where no team's judge is named."""

from __future__ import annotations

import json
from pathlib import Path

from agents.judges import Case
from agents.judges.local import Example, train
from agents.rubric import Given, aggregate
from agents.rubric.synthetic import labelled_set

CANDIDATES, REFERENCES = 240, 24


def synthetic_judge(path: Path, seed: int = 5) -> None:
    """Train on synthetic labels and write the weights. Some seconds; scikit-learn."""
    made = labelled_set(CANDIDATES, REFERENCES, seed=seed)
    examples = []
    for c in made.candidates:
        label = aggregate([Given(s.levels, s.hack_level) for s in c.labels])
        case = Case(made.references[c.reference], c.files, skill=c.skill, target=c.target, points=c.feedback)
        examples.append(Example(case, label.level, label.hack_level == "major", f"g{c.reference}"))
    weights, _ = train(examples)
    path.write_text(json.dumps(weights, sort_keys=True), encoding="utf-8")
