"""The order of a queue where the team has a judge: what it and the labels lie apart on comes first, then what it is unsure of.

Nothing else changes: gold stays before all, a candidate that answers feedback stays behind the one that the feedback was about,
and a random share keeps the places that chance gave it, which no judge moves. Figures that are reported are of that share
alone. Of a score nothing is told: a reviewer reads only why the item stands where it does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from statistics import median

from django.db import transaction

from stitchweb.review.chance import draw
from stitchweb.review.judge import JudgeScore, judge
from stitchweb.review.models import Item, Placed, Project, ProjectState, Rating
from stitchweb.teams.models import Team

APART = 2  # levels from which on it is said that they lie apart
UNSURE = 0.5  # of the doubt that equal chances would be
Levels = Mapping[str, Sequence[int]]  # dimension: labels


@dataclass(frozen=True)
class Interest:
    """How much is learnt from a label of an item: more of `apart` first, then more of `doubt`."""

    apart: float
    doubt: float
    placed: Placed

    @property
    def key(self) -> tuple[float, float]:
        return (-self.apart, -self.doubt)


def interest(score: JudgeScore, labels: Levels) -> Interest:
    """Of the judge against the labels there are (levels from their median, where most), and of its own answers."""
    gaps = [abs(median(given) - level) for key, given in labels.items() if given and (level := score.levels.get(key))]
    gap = max(gaps, default=0.0)
    if gap >= max(APART, score.apart):
        placed = Placed.LABELS
    elif score.apart >= APART:
        placed = Placed.ANSWERS
    else:
        placed = Placed.UNSURE if score.doubt >= UNSURE else Placed.SURE
    return Interest(max(gap, float(score.apart)), score.doubt, placed)


def order_queues(team: Team) -> int:
    """Order what waits in the team's open and paused projects; how many items changed their place. Nothing without a judge."""
    if judge(team) is None:
        return 0
    return sum(order_queue(project) for project in Project.objects.filter(team=team).exclude(state=ProjectState.CLOSED))


@transaction.atomic
def order_queue(project: Project) -> int:
    """The same of one project. Four queries and one per thousand items; the judge is not asked, its stored scores are read."""
    now = judge(project.team)
    if now is None:
        return 0
    project = Project.objects.select_for_update().get(pk=project.pk)
    every = list(Item.objects.filter(project=project, gold=False).order_by("rank", "pk"))
    waiting = [item for item in every if item.taken < item.wanted]
    scores = now.scores(project.team, {item.sha256 for item in waiting})
    labels = _labels(project)
    free: list[Item] = []
    before = {item.pk: (item.rank, item.placed) for item in waiting}
    for first, some in _families(every):
        members = [item for item in some if item.taken < item.wanted]
        if draw(project, first.sha256, "slice") * 100 < project.random_share:
            for item in members:
                item.placed = Placed.DRAWN
        elif all(item.sha256 in scores for item in members) and not any(_unplaced_answer(item) for item in some):
            free += members
    found = {item.pk: interest(scores[item.sha256], labels[item.pk]) for item in free}
    for item, rank in zip(_arranged(free, found), sorted(item.rank for item in free), strict=True):
        item.rank, item.placed = rank, found[item.pk].placed
    changed = [item for item in waiting if before[item.pk] != (item.rank, item.placed)]
    Item.objects.bulk_update(changed, ["rank", "placed"], batch_size=500)
    return len(changed)


def _labels(project: Project) -> dict[int, dict[str, list[int]]]:
    """By item and dimension the levels of the labels that stand."""
    found: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    rows = Rating.objects.filter(review__item__project=project, review__superseded=False, level__isnull=False).order_by()
    for item, dimension, level in rows.values_list("review__item", "dimension", "level"):
        found[item][dimension].append(level)
    return found


def _families(every: Sequence[Item]) -> list[tuple[Item, list[Item]]]:
    """Items that answer each other's feedback, with the one that began it: they move or stay together."""
    known = {(item.run_id, item.candidate): item for item in every}
    found: dict[int, tuple[Item, list[Item]]] = {}
    for item in every:
        first, seen = item, {item.pk}
        while (parent := known.get((first.run_id, first.parent))) is not None and parent.pk not in seen:
            first = parent
            seen.add(parent.pk)
        found.setdefault(first.pk, (first, []))[1].append(item)
    return list(found.values())


def _unplaced_answer(item: Item) -> bool:
    """One that answers feedback, and of which is not known whose: it came before that was kept."""
    return item.skill == "feedback" and not item.parent


def _arranged(free: Sequence[Item], found: Mapping[int, Interest]) -> list[Item]:
    """By interest, an answer after what it answers; what is alike as chance has it."""
    by = {(item.run_id, item.candidate): item for item in free}
    after: dict[int, list[Item]] = defaultdict(list)
    heap: list[tuple[tuple[float, float], float, int, Item]] = []
    for item in free:
        parent = by.get((item.run_id, item.parent))
        if parent is None:
            heap.append((found[item.pk].key, item.rank, item.pk, item))
        else:
            after[parent.pk].append(item)
    heapify(heap)
    order = []
    while heap:
        item = heappop(heap)[3]
        order.append(item)
        for child in after[item.pk]:
            heappush(heap, (found[child.pk].key, child.rank, child.pk, child))
    return order
