"""All labels of a project as lines of JSON: every review as it was submitted, and what was skipped, without anybody's name.

`stitchweb.labels/1`, one object a line. Nothing is averaged or left out; people are numbers of this project.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from stitchweb.review.groups import group_of
from stitchweb.review.models import Assignment, Held, Item, Probe, Project, Reviewer

SCHEMA = "stitchweb.labels/1"
PROBES = "stitchweb.probes/1"


def label_lines(project: Project) -> Iterator[str]:
    """A line per submitted or skipped assignment, in the order they ended. Queries per two hundred rows."""
    numbers = dict(Reviewer.objects.filter(project=project).values_list("user", "number"))  # of who skipped
    held_out = gold_groups()
    rows = (
        Assignment.objects.filter(item__project=project, state__in=[Held.SUBMITTED, Held.SKIPPED])
        .select_related("item__run__revision", "review__rubric")
        .prefetch_related("review__ratings", "review__marks", "hunches__job", "hunches__probe")
        .order_by("ended_at", "pk")
    )
    for row in rows.iterator(chunk_size=200):
        number = row.review.number if row.state == Held.SUBMITTED else numbers.get(row.user_id or 0)
        yield json.dumps(_head(row, number, held_out) | _body(row), ensure_ascii=False)


def probe_lines(project: Project) -> Iterator[str]:
    """A line per probe (`stitchweb.probes/1`): the reference with other inputs, and the verdict where it was found."""
    rows = Probe.objects.filter(project=project).select_related("hunch__job", "hunch__assignment__item")
    for probe in rows:
        item = probe.hunch.assignment.item
        yield json.dumps(
            {
                "schema": PROBES, "probe": probe.number, "reference_sha256": probe.reference_sha256, "reference": probe.text,
                "note": probe.hunch.note, "found_on": item.sha256, "verdict": probe.hunch.verdict,
            },
            ensure_ascii=False,
        )  # fmt: skip


def gold_groups() -> frozenset[str]:
    """Reference groups that some gold item is of. No label of a candidate of theirs may train anything."""
    texts = Item.objects.filter(gold=True).order_by().values_list("run__revision__text", flat=True).distinct()
    return frozenset(map(group_of, texts))


def _head(row: Assignment, number: int | None, held_out: frozenset[str]) -> dict[str, Any]:
    item = row.item
    group = group_of(item.run.revision.text)
    return {
        "schema": SCHEMA,
        "item": item.pk,
        "content_sha256": item.sha256,
        "reference_sha256": item.run.revision.sha256,
        "reference_group": group,
        "run": item.run_id,
        "candidate": item.candidate,
        "target": item.run.target,
        "skill": item.skill,
        "synthetic": item.run.synthetic,
        "gold": item.gold,
        "split": "gold" if group in held_out else None,  # None: for whoever makes the splits
        "reviewer": number,
        "status": row.state,
        "day": row.ended_at.date().isoformat() if row.ended_at else None,  # the clock would tell who was at work
    }


def _body(row: Assignment) -> dict[str, Any]:
    if row.state == Held.SKIPPED:
        return {"skip_reason": row.skip_reason, "skip_note": row.skip_note}
    review = row.review
    ratings = list(review.ratings.all())
    return {
        "rubric": str(review.rubric),
        "blind": review.blind,
        "superseded": review.superseded,
        "levels": {r.dimension: r.level for r in ratings},
        "sure": {r.dimension: r.sure for r in ratings},
        "reasons": {r.dimension: r.reason for r in ratings},
        "checks": {r.dimension: r.checks for r in ratings},
        "marks": [
            {
                "dimension": m.dimension, "side": m.side, "file": m.file, "first": m.first, "last": m.last,
                "text_sha256": m.text_sha256,
            }
            for m in review.marks.all()
        ],
        "hunches": [
            {
                "dimension": h.attached, "note": h.note, "changed": h.changed, "verdict": h.verdict,
                "kept_as_run": h.kept_as_id, "probe": h.probe.number if hasattr(h, "probe") else None,
            }
            for h in row.hunches.all()
            if h.attached
        ],
        "hack_level": review.hack_level,
        "hack_types": review.hack_types,
        "comment": review.comment,
        "active_s": review.active_s,
    }  # fmt: skip
