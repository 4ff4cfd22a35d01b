"""A small review project over the synthetic runs that `seed_demo` left. Its scores are made up and say so."""

from __future__ import annotations

import random

from stitchweb.review.content import Content, Score
from stitchweb.review.models import Project, Rubric
from stitchweb.review.services.projects import Filters, create_project, fill, set_reviewers
from stitchweb.review.services.queue import next_assignment
from stitchweb.review.services.reviews import save_draft, submit
from stitchweb.teams.models import Membership, Role, Team, User
from stitchweb.teams.services import create_user, set_role

NAME = "Synthetic review"
ITEMS, SCORED = 12, 4
GUIDELINES = """These candidates were written by `seed_demo`: nothing of them was ever built.

- In doubt take the lower level, and say what was missing.
- Mark lines first; a sentence is needed only where lines cannot say it.
"""


class NothingToReview(Exception):
    """There are no synthetic runs. The message says how to make some."""


def seed_review() -> tuple[Project, User]:
    """The project and one of its reviewers, who has scored nothing yet. What is there already stays and is returned."""
    team = Team.objects.filter(synthetic=True, runs__candidates__gt=0).order_by("pk").first()
    if team is None:
        raise NothingToReview("There are no synthetic runs to review. Make some first: manage.py seed_demo")
    owner = User.objects.get(memberships__team=team, memberships__role=Role.OWNER)
    people = [_reviewer(team, name) for name in ("Dora Example", "Finn Example")]
    found = Project.objects.filter(team=team, name=NAME, synthetic=True).first()
    if found:
        return found, people[0]
    rubric = Rubric.objects.filter(key="kernels").latest("version")
    project = create_project(owner, team, rubric, NAME, guidelines=GUIDELINES, synthetic=True)
    set_reviewers(owner, project, [person.pk for person in people])
    fill(owner, project, Filters(most=ITEMS))
    _score(people[1], project)
    return project, people[0]


def _reviewer(team: Team, name: str) -> User:
    email = f"{name.split()[0].lower()}@example.org"
    person = User.objects.filter(email=email).first() or create_user(email, name=name)
    if not Membership.objects.filter(team=team, user=person, role=Role.REVIEWER).exists():
        set_role(team, person, Role.REVIEWER)
    return person


def _score(person: User, project: Project) -> None:
    chance = random.Random(11)  # noqa: S311  the same scores every time
    dimensions = project.rubric.parsed.dimensions
    for _ in range(SCORED):
        row = next_assignment(person, project)
        if row is None:
            return
        scores = {d.key: Score(level=chance.choice((2, 3, 3, 4)), reason="Made up by seed_review.") for d in dimensions}
        save_draft(person, row.pk, Content(scores=scores, hack_level="none"))
        submit(person, row.pk, {})
