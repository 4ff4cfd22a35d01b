"""What is shown once a review is submitted: one's own scores, what was hidden, peers who have submitted, the final label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stitchweb.review.access import blind_to, may_hear_of_hunches
from stitchweb.review.disputes import Sheet, outdated, sheets
from stitchweb.review.hunches import attached_to
from stitchweb.review.judge import judge, score_of
from stitchweb.review.models import Assignment, Gold, Item, Mark, Rating, Remark, Review, Revised
from stitchweb.runs.access import may_watch
from stitchweb.runs.history import view_of


@dataclass(frozen=True)
class Column:
    """One review as a column. `who`: "you" or a pseudonym. `revised`: what they would say after the reveal."""

    who: str
    review: Review
    ratings: dict[str, Rating]
    marks: dict[str, list[Mark]]
    revised: Revised | None
    outdated: list[str]


def revealed(row: Assignment) -> dict[str, Any]:
    """For `review/done.html`. Call it for a submitted assignment only.

    Who wrote the candidate stays hidden while other candidates of the same run may still come to this person.
    """
    item = row.item
    view = view_of(item.run_id)
    candidate = view.candidates.get(item.candidate)
    verdict = (candidate.verdict or "") if candidate else ""
    to_come = blind_to(row.user).filter(run=item.run_id).count()
    found = labels_of(item, verdict, row.user_id, hunches=may_hear_of_hunches(row.user, item))
    return found | {
        "project": item.project,
        "rubric": item.project.rubric.parsed,
        "candidate": candidate,
        "check": (candidate.check or {}) if candidate else {},
        "to_come": to_come,
        "engineers": view.header.engineers if view.header and not to_come else {},
        "owner": None if to_come else item.run.owner,
        "may_watch": not to_come and may_watch(row.user, item.run_id),
        "open_peers": item.wanted - len(found["columns"]),
        "mine": found["columns"][0],
    }


def labels_of(item: Item, verdict: str, reader: int | None = None, *, hunches: bool = True) -> dict[str, Any]:
    """All labels of an item as columns, the reader's own first, then by number; how far apart they lie; the final label.

    Verdicts are named, and the judge's score told, to a `reader` who has scored it, and to everybody once it is settled; those
    on hunches where `hunches` says so.
    """
    [sheet] = sheets([item])
    tell = reader is not None or sheet.final is not None
    marks = _marks(sheet)
    revised = {r.review_id: r for r in Revised.objects.filter(review__item=item)}
    columns = [
        Column(
            who="you" if reader and g.review.user_id == reader else f"reviewer {g.number}",
            review=g.review,
            ratings={r.dimension: r for r in g.review.ratings.all()},
            marks=marks.get(g.review.pk, {}),
            revised=revised.get(g.review.pk),
            outdated=outdated(g.review, item.project, verdict, tell=tell),
        )
        for g in sheet.given
    ]
    columns.sort(key=lambda c: c.who != "you")
    return {
        "columns": columns,
        "spread": {d.key: sheet.apart(d.key) for d in item.project.rubric.parsed.dimensions},
        "final": sheet.final,
        "outdated": _whose(columns, outdated(sheet.final, item.project, verdict) if sheet.final else []),
        "disputed": sheet.disputed,
        "answer": Gold.objects.filter(item=item).first(),
        "judged": score_of(item.project.team, item.sha256) if tell else None,
        "the_judge": judge(item.project.team),
        "evidence": attached_to(item, tell=hunches),
        "remarks": list(Remark.objects.filter(item=item)),
    }


def _whose(columns: list[Column], of_final: list[str]) -> list[tuple[str, str]]:
    """Why labels are outdated, each reason once, with whose labels they are."""
    found: dict[str, list[str]] = {}
    for who, reasons in [*((c.who, c.outdated) for c in columns), ("the final label", of_final)]:
        for why in reasons:
            found.setdefault(why, []).append(who)
    return [(", ".join(people), why) for why, people in found.items()]


def _marks(sheet: Sheet) -> dict[int, dict[str, list[Mark]]]:
    found: dict[int, dict[str, list[Mark]]] = {}
    for mark in Mark.objects.filter(review__item=sheet.item):
        found.setdefault(mark.review_id, {}).setdefault(mark.dimension, []).append(mark)
    return found
