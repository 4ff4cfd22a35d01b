"""What comes after a label: its one revision, the grant to settle disputes, and final labels. Nothing here changes a label."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import transaction

from stitchweb.review import signals
from stitchweb.review.access import item_to_settle
from stitchweb.review.disputes import sheets
from stitchweb.review.label import GivenLabel, label_problems
from stitchweb.review.models import Adjudication, Adjudicator, Held, Item, Project, Review, Revised, Rubric
from stitchweb.review.services.audit import named, record
from stitchweb.review.services.projects import people_to_set
from stitchweb.review.services.queue import QueueRefused, locked
from stitchweb.review.services.reviews import NotComplete
from stitchweb.review.services.typed import sent
from stitchweb.teams.models import User


@transaction.atomic
def revise(user: User, assignment_pk: int, label: GivenLabel) -> Revised:
    """Keep what the reviewer would say now, beside the label they gave. Once: sent twice, the first stands.

    QueueRefused when the review is not submitted or not theirs, and with the words of another revision after the first;
    NotComplete with all that is missing.
    """
    row = locked(user, assignment_pk)
    if row.state != Held.SUBMITTED:
        raise QueueRefused("Submit the review first. Until then you can change it as you like.")
    review = row.review
    found = Revised.objects.filter(review=review).first()
    if found and _said(found) == label.stored:
        return found
    if found:
        raise QueueRefused(f"You revised this label before, and that stands. This was not kept: {label.reason.strip()}")
    missing = label_problems(label, review.rubric.parsed)
    if missing:
        raise NotComplete(missing)
    peers = Review.objects.filter(item=row.item_id).exclude(pk=review.pk).count()
    revised = Revised.objects.create(review=review, peers=peers, **label.stored)
    first = {r.dimension: r.level for r in review.ratings.all()} | {"hack_level": review.hack_level}
    stands = {**label.stored["levels"], "hack_level": label.hack_level}  # type: ignore[dict-item]
    sent(user, row.item_id, "revise")
    record(user, row.item.project_id, "revise", named(row.item), old=first, new=stands | {"reason": revised.reason})
    return revised


@transaction.atomic
def set_adjudicators(user: User, project: Project, chosen: Iterable[int], *, seen: int | None = None) -> None:
    """Exactly these people of the team settle disputes from now on; what they settled stays. As `set_reviewers` refuses."""
    project, wanted = people_to_set(user, project, chosen, "adjudicators", seen)
    there = set(Adjudicator.objects.filter(project=project).values_list("user", flat=True))
    Adjudicator.objects.filter(project=project).exclude(user__in=wanted).delete()
    Adjudicator.objects.bulk_create(Adjudicator(project=project, user_id=pk) for pk in sorted(wanted - there))
    record(user, project, "adjudicators", old={"people": sorted(there)}, new={"people": sorted(wanted)})
    if fresh := sorted(wanted - there):
        signals.tell(signals.granted, Project, project=project, by=user, people=fresh)


@transaction.atomic
def settle(
    user: User, project_pk: int, item_pk: int, label: GivenLabel, *, after: int | None, verdict: str = ""
) -> Adjudication:
    """Give an item its final label. `after`: the newest final label that the page showed, None when there was none.

    QueueRefused when somebody settled it meanwhile; NotComplete with all that is missing; as `access.item_to_settle` otherwise.
    """
    Item.objects.select_for_update().filter(pk=item_pk).first()
    item = item_to_settle(user, project_pk, item_pk)
    newest = Adjudication.objects.filter(item=item).first()
    if newest and newest.pk != after:
        if newest.user_id == user.pk and _said(newest) == label.stored:
            return newest  # sent twice
        raise QueueRefused(
            "Somebody settled this item while you wrote. Their final label stands; read it before you add another."
        )
    if newest is None and not sheets([item])[0].disputed:
        raise QueueRefused("The labels of this item lie together, so there is nothing to settle.")
    rubric = Rubric.objects.get(projects=project_pk)
    missing = label_problems(label, rubric.parsed)
    if missing:
        raise NotComplete(missing)
    made = Adjudication.objects.create(item=item, user=user, rubric=rubric, verdict=verdict, **label.stored)
    sent(user, item_pk, "settle")
    record(user, project_pk, "settle", named(item), old=_said(newest) if newest else {}, new=_said(made))
    signals.tell(signals.settled, Item, item=item, by=user)
    return made


def _said(label: Adjudication | Revised) -> dict[str, object]:
    return {name: getattr(label, name) for name in ("levels", "hack_level", "hack_types", "reason")}
