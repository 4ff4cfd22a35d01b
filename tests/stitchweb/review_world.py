"""Review projects for tests: people who score, items in a queue, over bare rows or over told runs."""

from __future__ import annotations

from dataclasses import dataclass

from stitchweb.review.models import Item, Project, Rubric
from stitchweb.review.services.projects import Filters, create_project, fill, set_reviewers
from stitchweb.runs.models import Run
from stitchweb.teams.models import Role, Team, User
from stitchweb.teams.services import create_user, set_role
from tests.conftest import World


@dataclass
class Queue:
    """`project` with `items` of one run that the world's owner owns; `people` score in it."""

    project: Project
    items: list[Item]
    people: list[User]
    run: Run


def make_queue(world: World, people: int = 3, items: int = 4, **options: int) -> Queue:
    run = Run.objects.create(
        team=world.team, revision=world.revision, owner=world.owner, name="layernorm", target="cpu", engineer="offline",
        protocol="strict/4", status="finished", candidates=items,
    )  # fmt: skip
    project = create_project(world.owner, world.team, Rubric.objects.get(key="kernels", version=1), "Norms", **options)
    users = [create_user(f"expert{i}-{project.pk}@example.org", name=f"Expert {i}") for i in range(people)]
    for user in users:
        set_role(world.team, user, Role.REVIEWER)
    set_reviewers(world.owner, project, [user.pk for user in users])
    rows = Item.objects.bulk_create(
        Item(project=project, run=run, candidate=f"c{i}", sha256=f"{i:064x}", skill="from_scratch", why="all", rank=i / items,
             wanted=project.overlap)
        for i in range(items)
    )  # fmt: skip
    return Queue(project, rows, users, run)


@dataclass
class Desk:
    """rita and raj score in `project`, whose items are the candidates of the team's ended runs."""

    project: Project
    rita: User
    raj: User


def make_desk(team: Team, owner: User) -> Desk:
    rita, raj = create_user("rita@example.org", name="Rita Quill"), create_user("raj@example.org", name="Raj")
    for user in (rita, raj):
        set_role(team, user, Role.REVIEWER)
    rubric = Rubric.objects.get(key="kernels", version=1)
    project = create_project(owner, team, rubric, "Norms", guidelines="**Read** <script>alert(1)</script>")
    set_reviewers(owner, project, [rita.pk, raj.pk])
    fill(owner, project, Filters())
    return Desk(project, rita, raj)
