"""Judges for tests: one that was made, by a row alone or in earnest, and what it says of candidates."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from agents.judges import Case, Judgement, Line
from agents.judges.local import Example, train
from agents.rubric import DIMENSIONS
from agents.rubric.synthetic import labelled_set
from gpu_runner.contracts import digest
from stitchweb.datasets.models import Judge, Score, WorkState
from stitchweb.review.services.projects import content_sha256
from stitchweb.runs.history import view_of
from stitchweb.runs.models import Run
from stitchweb.teams.models import Team


def active_judge(team: Team, gate: str = "score", **more: Any) -> Judge:
    return Judge.objects.create(team=team, kind="local", version=7, state=WorkState.DONE, gate=gate, active=True, **more)


def said(level: int = 4, sure: float = 0.8, hack: float = 0.1, why: str = "") -> Judgement:
    """The same level in every dimension, as likely as `sure`."""
    chances = [(1 - sure) / 4] * 5
    chances[level - 1] = sure
    return Judgement(
        levels=dict.fromkeys(DIMENSIONS, tuple(chances)), hack=hack, low=dict.fromkeys(DIMENSIONS, level),
        high=dict.fromkeys(DIMENSIONS, level), coverage=0.9, rationale=dict.fromkeys(DIMENSIONS, why) if why else {},
        lines=(Line(dimension=DIMENSIONS[0], file="model_new.py", first=2, last=3),),
    )  # fmt: skip


def score_all(judge: Judge, run: Run, judgement: Judgement) -> list[str]:
    """Let the judge have said this of every candidate of the run; their contents."""
    view = view_of(run.pk)
    contents = sorted({content_sha256(view, candidate) for candidate in view.candidates.values() if candidate.files})
    Score.objects.filter(judge=judge, sha256__in=contents).delete()
    Score.objects.bulk_create(Score(judge=judge, sha256=sha, judgement=judgement.stored) for sha in contents)
    return contents


@cache
def weights() -> bytes:
    """Of a local judge that learnt from sixty made-up candidates."""
    made = labelled_set(60, 12, seed=5)
    examples = [
        Example(Case(reference=made.references[c.reference], files=c.files), c.levels, c.hack, f"g{c.reference}")
        for c in made.candidates
    ]
    return json.dumps(train(examples)[0]).encode()


def trained(judge: Judge) -> Judge:
    """The judge with such weights, as if it had been made."""
    stored = weights()
    judge.sha256 = hashlib.sha256(stored).hexdigest()
    judge.file = default_storage.save(f"judges/{judge.sha256}.json", ContentFile(stored))
    judge.save()
    return judge


def content_of(reference: str, files: Mapping[str, str]) -> str:
    """What `content_sha256` gives for a candidate of these files."""
    sha = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in files.items()}
    return digest({"reference": hashlib.sha256(reference.encode()).hexdigest(), "files": sha})
