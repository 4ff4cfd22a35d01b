"""Drafts and submissions. A draft is never overwritten: each save adds a row, undo goes one back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from stitchweb.review import signals
from stitchweb.review.access import was_open_to
from stitchweb.review.content import CANNOT_TELL, Content, Files, Lines, Problem, lines_of, problems
from stitchweb.review.models import Assignment, Draft, Held, Item, Mark, Rating, Review, Reviewer, Rubric
from stitchweb.review.services.audit import named, record
from stitchweb.review.services.queue import QueueRefused, hold, locked
from stitchweb.teams.models import User

MAX_DRAFTS = 2000  # of one assignment: a bound for a script that runs wild


class NotComplete(Exception):
    """The review cannot be submitted yet; `problems` say why."""

    def __init__(self, found: list[Problem]) -> None:
        super().__init__(" ".join(p.sentence for p in found))
        self.problems = found


@dataclass(frozen=True)
class Saved:
    """`draft`: its key; `overtaken`: another page of this person had saved since the one that this content comes from."""

    draft: int
    overtaken: bool
    expires_at: datetime


@transaction.atomic
def save_draft(
    user: User, assignment_pk: int, content: Content, *, based_on: int | None = None, active_s: float = 0.0
) -> Saved:
    """Keep what the person has put down, and renew the reservation. QueueRefused when the item is not theirs any more.

    `active_s`: seconds at work since the last word; what is more than the clock says is cut.
    """
    row = locked(user, assignment_pk)
    if row.state == Held.SUBMITTED:
        raise QueueRefused("This review is submitted: it cannot be changed here.")
    now = timezone.now()
    draft = _kept(row, content)
    _count(row, active_s, now)
    overtaken = based_on is not None and row.draft_id not in (None, based_on, draft.pk)
    row.draft = draft
    row.save(update_fields=["draft", "active_s", "seen_at"])
    try:
        hold(row, now)
    except QueueRefused:
        if row.state == Held.SKIPPED:
            raise
        # Others have the slots by now. The draft is kept all the same; only submitting it is refused.
    return Saved(draft.pk, overtaken, row.expires_at)


def _kept(row: Assignment, content: Content) -> Draft:
    whole = content.model_dump(mode="json")
    if row.draft is not None and row.draft.content == whole:
        return row.draft
    if Draft.objects.filter(assignment=row).count() >= MAX_DRAFTS:
        raise QueueRefused("This item has been saved two thousand times, so it is saved no more. Submit it or skip it.")
    return Draft.objects.create(assignment=row, before=row.draft, content=whole)


def _count(row: Assignment, active_s: float, now: datetime) -> None:
    passed = max(0.0, (now - row.seen_at).total_seconds())
    row.active_s += min(max(active_s, 0.0), passed)
    row.seen_at = now


@transaction.atomic
def undo(user: User, assignment_pk: int) -> Content | None:
    """Go one draft back; returns what stands now, None when there is nothing before. The undone draft stays in the history."""
    row = locked(user, assignment_pk)
    if row.state == Held.SUBMITTED:
        raise QueueRefused("This review is submitted: it cannot be changed here.")
    if row.draft is None:
        return None
    row.draft = row.draft.before
    row.save(update_fields=["draft"])
    return content_of(row)


def content_of(row: Assignment) -> Content:
    """What the person has put down, empty before the first save."""
    return Content.model_validate(row.draft.content) if row.draft else Content()


@transaction.atomic
def submit(user: User, assignment_pk: int, files: Files, *, verdict: str = "") -> Review:
    """Make the newest draft a review. `verdict`: the Verifier's word on the candidate now.

    NotComplete with all that is missing; QueueRefused when no label is left to give.
    """
    row = locked(user, assignment_pk)
    if row.state == Held.SUBMITTED:
        return row.review  # sent twice: the first one stands
    rubric = Rubric.objects.get(projects__items=row.item_id)
    content = content_of(row)
    missing = problems(content, rubric.parsed, files)
    if missing:
        raise NotComplete(missing)
    now = timezone.now()
    hold(row, now)
    number = Reviewer.objects.values_list("number", flat=True).get(project__items=row.item_id, user=user)
    row.state, row.ended_at = Held.SUBMITTED, now
    row.save(update_fields=["state", "ended_at"])
    review = Review.objects.create(
        assignment=row, item_id=row.item_id, user=user, rubric=rubric, hack_level=content.hack_level, number=number,
        hack_types=list(content.hack_types), comment=content.comment.strip(), active_s=round(row.active_s, 1), submitted_at=now,
        verdict=verdict, blind=not was_open_to(user, row.item),
    )  # fmt: skip
    Rating.objects.bulk_create(_ratings(review, content))
    Mark.objects.bulk_create(_mark(review, lines, files) for lines in content.marks)
    given = {key: score.level or None for key, score in content.scores.items()}
    record(user, row.item.project_id, "submit", named(row.item), new=given | {"hack_level": review.hack_level})
    signals.tell(signals.labelled, Item, item=row.item)
    return review


def _ratings(review: Review, content: Content) -> list[Rating]:
    return [
        Rating(
            review=review, dimension=key, level=None if score.level == CANNOT_TELL else score.level, sure=score.sure,
            reason=score.reason.strip(), checks=list(score.checks),
        )
        for key, score in content.scores.items()
    ]  # fmt: skip


def _mark(review: Review, lines: Lines, files: Files) -> Mark:
    text = "\n".join(lines_of(files[lines.side][lines.file])[lines.first - 1 : lines.last])
    return Mark(review=review, **lines.model_dump(), text_sha256=hashlib.sha256(text.encode()).hexdigest())
