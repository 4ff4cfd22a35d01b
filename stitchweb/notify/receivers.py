"""From what happened to who is told, and in which words. Each runs after the commit of what it is about."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from stitchweb.core import upkeep
from stitchweb.notify import kinds, sending
from stitchweb.notify.services import forget, tell, tell_hooks
from stitchweb.review import signals as reviews
from stitchweb.review.disputes import disputes_for, open_disputes
from stitchweb.review.models import Adjudicator, Item, Project, ProjectState, Review
from stitchweb.runs import signals as runs
from stitchweb.runs.access import may_watch
from stitchweb.runs.models import Run
from stitchweb.sharing import signals as sharing
from stitchweb.sharing.models import Publication, ShareLink
from stitchweb.teams.models import Team, User

LATE = timedelta(days=1)  # what ended longer ago is brought in from elsewhere, and no news


def connect() -> None:
    """Listen from now on. Called when the site starts."""
    for signal, receiver in (
        (runs.ended, run_ended), (reviews.asked, review_asked), (reviews.granted, settling_granted),
        (reviews.settled, item_settled), (sharing.published, published), (sharing.shared, shared),
        (sharing.mentioned, mentioned), (sharing.commented, commented), (upkeep.often, sending.send_due),
        (upkeep.hourly, hourly),
    ):  # fmt: skip
        signal.connect(receiver, dispatch_uid=f"notify.{receiver.__name__}")


def hourly(**_: Any) -> None:
    """Old news go; disputes that wait are told of."""
    forget()
    tell_of_disputes()


def run_ended(run: Run, **_: Any) -> None:
    """The owner of a run, and the team's hooks. Who scores its program blind is told that it ended and nothing else."""
    if run.synthetic or (run.ended_at and run.ended_at < timezone.now() - LATE):
        return
    place, about = reverse("run", args=[run.pk]), f"run {run.pk}"
    if run.owner is not None:
        said = f"Run {run.pk}, {run.name}, has ended"
        if may_watch(run.owner, run.pk):
            word = run.verdict or run.status
            said += f": {word}. {run.sentence}".rstrip()
        else:
            said += ". It opens to you when you have scored its candidates."
        tell(kinds.RUN_FINISHED, [run.owner], said, place, about, run.team)
    over = {"value": run.speedup, "low": run.speedup_low, "high": run.speedup_high} if run.speedup is not None else None
    facts = {
        "run": run.pk, "name": run.name, "status": run.status, "verdict": run.verdict, "sentence": run.sentence,
        "target": run.target, "protocol": run.protocol, "speed": run.speed, "speedup": over, "page": _whole(place),
    }  # fmt: skip
    tell_hooks(kinds.RUN_FINISHED, run.team, about, facts)


def review_asked(project: Project, by: User, people: list[int], **_: Any) -> None:
    """Who scores in a project from now on, but not somebody who added themselves."""
    place, about = reverse("review-project", args=[project.pk]), _once(f"project {project.pk}")
    others = User.objects.filter(pk__in=people).exclude(pk=by.pk)
    tell(kinds.REVIEW_REQUESTED, others, f"{by} asks you to score candidates in {project.name}.", place, about, project.team)
    facts = {"project": project.pk, "name": project.name, "people": len(people), "page": _whole(place)}
    tell_hooks(kinds.REVIEW_REQUESTED, project.team, about, facts)


def settling_granted(project: Project, by: User, people: list[int], **_: Any) -> None:
    """Who settles disputes from now on, but not somebody who chose themselves."""
    place, about = reverse("review-disagreement", args=[project.pk]), _once(f"grant {project.pk}")
    others = User.objects.filter(pk__in=people).exclude(pk=by.pk)
    tell(kinds.ADJUDICATION, others, f"{by} asks you to settle disputes in {project.name}.", place, about, project.team)


def item_settled(item: Item, by: User, **_: Any) -> None:
    """Who labelled the item, but not who settled it. What the final label is stands on their page of it."""
    project = item.project
    for review in Review.objects.filter(item=item).exclude(user=by.pk).select_related("user", "assignment"):
        if review.user is not None:
            place = reverse("review-item", args=[review.assignment_id])
            said = f"A candidate that you scored in {project.name} has its final label."
            tell(kinds.ADJUDICATION, [review.user], said, place, _once(f"settled {item.pk}"), project.team)
    facts = {
        "project": project.pk,
        "name": project.name,
        "item": item.pk,
        "page": _whole(reverse("review-project", args=[project.pk])),
    }
    tell_hooks(kinds.ADJUDICATION, project.team, _once(f"settled {item.pk}"), facts)


def tell_of_disputes() -> None:
    """Once a day, each adjudicator whom disputes wait for. Some queries per project that has any."""
    for grant in Adjudicator.objects.exclude(project__state=ProjectState.CLOSED).select_related("project__team", "user"):
        project = grant.project
        if not open_disputes(project).exists():
            continue
        count = disputes_for(grant.user, project).count()
        if count:
            many = "A dispute waits" if count == 1 else f"{count} disputes wait"
            about = f"disputes {project.pk} {timezone.now():%Y-%m-%d}"
            place = reverse("review-disagreement", args=[project.pk])
            tell(kinds.ADJUDICATION, [grant.user], f"{many} for you in {project.name}.", place, about, project.team)


def published(publication: Publication, by: User, place: str, **_: Any) -> None:
    """Everybody else in the team who may see it."""
    team = publication.team
    told = [person for person in _others(team, by) if may_watch(person, publication.run_id)]
    about = f"publication {publication.pk}"
    tell(kinds.SHARE, told, f"{by} published {publication} in {team.name}.", place, about, team)
    facts = {"publication": publication.pk, "name": publication.name, "version": publication.version, "page": _whole(place)}
    tell_hooks(kinds.SHARE, team, about, facts)


def shared(link: ShareLink, by: User, publication: Publication, place: str, **_: Any) -> None:
    """Whoever published it, when somebody else shares it beyond the team. The link itself is told to nobody."""
    team, about = publication.team, f"link {link.pk}"
    if publication.author is not None and publication.author.pk != by.pk:
        tell(kinds.SHARE, [publication.author], f"{by} made a share link of {publication}.", place, about, team)
    tell_hooks(kinds.SHARE, team, about, {"publication": publication.pk, "name": publication.name, "page": _whole(place)})


def mentioned(person: User, by: User, publication: Publication, comment: Any, place: str, **_: Any) -> None:
    """Who is named."""
    said = f"{by} mentioned you in a comment on {publication}."
    tell(kinds.MENTION, [person], said, place, f"comment {comment.pk}", publication.team)


def commented(by: User, publication: Publication, comment: Any, place: str, **_: Any) -> None:
    """Whoever published it, unless they wrote it or it names them anyway."""
    author = publication.author
    if author is not None and author.pk != by.pk and not comment.mentions.filter(pk=author.pk).exists():
        said = f"{by} commented on {publication}, which you published."
        tell(kinds.MENTION, [author], said, place, f"comment {comment.pk}", publication.team)
    facts = {"publication": publication.pk, "name": publication.name, "comment": comment.pk, "page": _whole(place)}
    tell_hooks(kinds.MENTION, publication.team, f"comment {comment.pk}", facts)


def _others(team: Team, by: User) -> list[User]:
    return list(User.objects.filter(memberships__team=team, is_active=True).exclude(pk=by.pk))


def _once(what: str) -> str:
    """What may happen again to the same thing, and is news then."""
    return f"{what} {timezone.now():%Y-%m-%dT%H:%M:%S.%f}"


def _whole(place: str) -> str:
    return f"{settings.SITE_URL}{place}"
