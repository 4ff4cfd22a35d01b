"""Judges: asked for, trained or asked, calibrated, gated, chosen."""

from __future__ import annotations

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from agents.judges import Case, Judgement
from agents.judges.figures import Scored, figures
from agents.judges.gate import gate
from agents.judges.local import Example, TooFew, score, train
from agents.judges.probes import probe
from agents.rubric import DIMENSIONS
from stitchweb.datasets.configs.data import Data, Labelled, reasons_of
from stitchweb.datasets.models import Judge, Release, Score, ScoredRun, WorkState
from stitchweb.datasets.progress import Refused, Tell, teller
from stitchweb.datasets.services.collect import collect
from stitchweb.datasets.services.placing import Leaking, leaks, place
from stitchweb.datasets.services.releases import load
from stitchweb.datasets.services.work import begin, carried_out, sent
from stitchweb.datasets.snapshot import freeze
from stitchweb.review.models import BY_CHANCE, Item, Project
from stitchweb.teams.models import Team, User

MAKE_JUDGE = "stitchweb.make_judge"
KINDS = ("local", "model")
MOST_LEARNT = 2000  # labelled candidates that a local judge is trained on, drawn from more: about a minute
PROBED = 24  # cases that probes are made on
ASKED = 100  # cases that a model judge is calibrated on, unless another number is given
SHOTS = 4


@dataclass(frozen=True)
class Labels:
    """What a judge may learn and what it is measured on. `random`: contents whose labels were given blind to items that no
    judge chose; figures are of these alone."""

    data: Data
    train: list[Labelled]
    measured: list[Labelled]
    random: frozenset[str]


def request_judge(
    user: User | None, team: Team, kind: str, recipe: Mapping[str, Any] | None = None, *, send: bool = True
) -> Judge:
    """A row for the next version of a kind of judge, which the agent worker makes. Refused for no such kind."""
    if kind not in KINDS:
        raise Refused(f"There is no kind of judge {kind!r}. Choose local or model.")
    recipe = dict(recipe or {})
    if kind == "model" and not recipe.get("model"):
        raise Refused("A model judge needs a model: add one on the page Models, then choose it here.")
    with transaction.atomic():
        Team.objects.select_for_update().get(pk=team.pk)
        newest = Judge.objects.filter(team=team, kind=kind).aggregate(most=Max("version"))["most"] or 0
        row = Judge.objects.create(team=team, kind=kind, version=newest + 1, recipe=recipe, created_by=user)
    if send:
        sent(MAKE_JUDGE, row)
    return row


def make_judge(row: Judge, tell: Tell | None = None) -> None:
    """Make, calibrate and gate it; its scores of all candidates are stored. Refused leaves the row failed with the sentence."""
    if not begin(row):
        return
    with carried_out(row):
        say = tell or teller(row)
        labels = labels_for(row, say)
        if row.kind == "local":
            _local(row, labels, say)
        else:
            from stitchweb.datasets.services.asking import by_model

            by_model(row, labels, say, _finish)


def labels_for(row: Judge, tell: Tell) -> Labels:
    """Of the release that the recipe names, or of the labels as they are now."""
    name = row.recipe.get("release")
    if name:
        release = Release.objects.filter(team=row.team, name=name).first()
        if release is None:
            raise Refused(f"This team has no release {name!r}.")
        data = Data(load(release))
    else:
        collect(row.team, tell)
        rows = place(row.team, tell)
        if found := leaks(rows):
            raise Leaking(found)
        data = Data(freeze(row.team, rows, tell))
    learnable = [one for one in data.labelled if data.split(one.candidate) != "gold"]
    drawn = randomly_chosen(row.team)
    measured = [one for one in learnable if one.blind and one.sha256 in drawn]
    return Labels(data, learnable, measured, drawn)


def randomly_chosen(team: Team) -> frozenset[str]:
    """Contents that came into a queue by no judge's disagreement, and stood in it where chance put them."""
    projects = Project.objects.filter(team=team).values_list("pk", "filters")
    random = [pk for pk, filters in projects if not filters.get("apart")]
    items = Item.objects.filter(project__in=random, placed__in=BY_CHANCE)
    return frozenset(items.order_by().values_list("sha256", flat=True))


def _local(row: Judge, labels: Labels, tell: Tell) -> None:
    data = labels.data
    learnt = labels.train if len(labels.train) <= MOST_LEARNT else _sample(labels.train, MOST_LEARNT)
    examples = [_example(data, one) for one in learnt]
    try:
        weights, held_out = train(examples, tell)
    except TooFew as few:
        raise Refused(str(few)) from few
    by = dict(zip((one.sha256 for one in learnt), held_out, strict=True))
    scored = [_scored(data, one, by[one.sha256]) for one in labels.measured if one.sha256 in by]
    tell("Probing", 0, 1)
    cases = [data.case(one.candidate) for one in _sample(labels.measured, PROBED)]
    stored = json.dumps(weights, sort_keys=True, separators=(",", ":")).encode()
    row.sha256 = hashlib.sha256(stored).hexdigest()
    row.file = default_storage.save(f"judges/{row.sha256}.json", ContentFile(stored))
    row.recipe |= {"labels": len(examples), "version": weights["version"]}
    scores: dict[str, tuple[Judgement, bool]] = {sha: (judgement, True) for sha, judgement in by.items()}
    every = [c for c in data.candidates.values() if c["sha256"] not in scores]
    seen = {example.group for example in examples}
    for at, candidate in enumerate(every):
        tell("Scoring", at, len(every))
        scores[candidate["sha256"]] = (score(weights, data.case(candidate)), data.group(candidate) not in seen)
    _finish(row, scored, partial(score, weights), cases, scores, labels)


def _finish(
    row: Judge, scored: Sequence[Scored], ask: Callable[[Case], Judgement], cases: Sequence[Case],
    scores: Mapping[str, tuple[Judgement, bool]], labels: Labels,
) -> None:  # fmt: skip
    """Figures, probes, drift, gate; and the scores of all contents."""
    found = figures(scored)
    found["probes"] = probe(ask, cases)
    found["drift"] = drift(row, scores, labels)
    row.figures = found
    row.gate, row.reasons = gate(found)
    with transaction.atomic():
        Score.objects.filter(judge=row).delete()
        Score.objects.bulk_create(
            (
                Score(judge=row, sha256=sha, judgement=one.stored, apart=one.apart, held_out=held)
                for sha, (one, held) in sorted(scores.items())
            ),
            batch_size=500,
        )


def _sample(some: Sequence[Labelled], most: int) -> list[Labelled]:
    ordered = sorted(some, key=lambda one: one.sha256)
    return random.Random(6).sample(ordered, min(most, len(ordered)))  # noqa: S311


def _example(data: Data, one: Labelled) -> Example:
    weight = 1.0 if one.final else min(1.0, max(one.made.raters, 1) / 3)
    return Example(data.case(one.candidate), one.made.level, one.major, data.group(one.candidate), weight)


def _scored(data: Data, one: Labelled, judgement: Judgement) -> Scored:
    days = sorted(r["day"] for r in one.ratings if r["day"])
    tags = {"engineer": one.candidate["coder"], "target": one.candidate["target"], "month": days[-1][:7] if days else ""}
    hack = None if one.made.hack_level in ("", "unsure") else one.major
    raters = [r["levels"] for r in one.ratings]
    return Scored(judgement, one.made.level, hack, data.group(one.candidate), one.candidate["reference"], raters, tags)


def drift(row: Judge, scores: Mapping[str, tuple[Judgement, bool]], labels: Labels) -> dict[str, Any]:
    """Four causes apart. `judge`: levels by which scores of the same contents moved since the version before; `input`:
    mean scores of the older and the newer half of candidates; `rater`: levels by which raters lie above the others, older
    and newer half of their labels; `rubric`: labels per version."""
    before = Judge.objects.filter(team=row.team, kind=row.kind, state=WorkState.DONE, version__lt=row.version).first()
    moved: dict[str, Any] = {}
    if before:
        old = {
            s.sha256: Judgement.model_validate(s.judgement)
            for s in Score.objects.given().filter(judge=before, sha256__in=list(scores)[:900])
        }
        common = [(old[sha], scores[sha][0]) for sha in old]
        if common:
            moved = {key: sum(b.mean(key) - a.mean(key) for a, b in common) / len(common) for key in DIMENSIONS}
    order = [
        c["sha256"]
        for c in sorted(labels.data.candidates.values(), key=lambda c: (c["run"], c["number"]))
        if c["sha256"] in scores
    ]
    half = len(order) // 2
    return {
        "judge": {"before": str(before) if before else "", "moved": moved},
        "input": {"older": _means(order[:half], scores), "newer": _means(order[half:], scores), "n": len(order)},
        "rater": _raters(labels),
        "rubric": _versions(labels),
    }


def _means(some: Sequence[str], scores: Mapping[str, tuple[Judgement, bool]]) -> dict[str, float]:
    return {key: sum(scores[sha][0].mean(key) for sha in some) / len(some) for key in DIMENSIONS} if some else {}


def _raters(labels: Labels) -> list[dict[str, Any]]:
    """By rater: mean levels above the others' on the same candidate, in the older and the newer half."""
    off: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for one in labels.measured:
        for rating in one.ratings:
            others = [r for r in one.ratings if r["pid"] != rating["pid"]]
            gaps = [
                level - theirs
                for key in DIMENSIONS
                if (level := rating["levels"].get(key)) is not None
                for other in others
                if (theirs := other["levels"].get(key)) is not None
            ]
            if gaps:
                off[rating["pid"]].append((rating["day"], sum(gaps) / len(gaps)))
    found = []
    for pid, some in sorted(off.items()):
        values = [gap for _, gap in sorted(some, key=lambda entry: entry[0])]
        half = len(values) // 2
        found.append({
            "pid": pid, "n": len(values), "older": sum(values[:half]) / half if half else None,
            "newer": sum(values[half:]) / (len(values) - half),
        })  # fmt: skip
    return found


def _versions(labels: Labels) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for one in labels.train:
        for rating in one.ratings:
            counts[rating["rubric"]] += 1
    return dict(sorted(counts.items()))


@transaction.atomic
def activate(team: Team, version: int) -> Judge | None:
    """Let this judge's scores be the team's, none for 0. Refused for one whose gate is shut, or that is not made."""
    Team.objects.select_for_update().get(pk=team.pk)
    row = Judge.objects.filter(team=team, pk=version).first() if version else None
    if version and row is None:
        raise Refused("This team has no such judge.")
    if row and (row.state != WorkState.DONE or row.gate == "nothing"):
        raise Refused(f"The {row} may neither score nor rank: {' '.join(row.reasons[:2]) or 'it is not made.'}")
    Judge.objects.filter(team=team, active=True).update(active=False)
    if row:
        row.active, row.chosen_at = True, timezone.now()
        row.save(update_fields=["active", "chosen_at"])
        if Score.objects.filter(judge=row).exclude(broken="").delete()[0]:
            # It is asked anew where it broke, and finds its scores of all else.
            ScoredRun.objects.filter(judge=row).update(done=False, sent_at=row.created_at)
    return row


def settled_examples(labels: Labels) -> list[tuple[Labelled, Mapping[str, str]]]:
    """What adjudicators settled in the training split, with reasons, for a model judge's few examples."""
    found = [one for one in labels.train if one.final and labels.data.split(one.candidate) == "train"]
    return [(one, reasons_of(one)[0]) for one in _sample(found, SHOTS)]
