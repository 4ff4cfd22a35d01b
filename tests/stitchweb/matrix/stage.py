"""One team with everything in it, and everybody who may come: what all visits of the matrix play on."""

from __future__ import annotations

import dataclasses
from functools import cached_property

from django.test import Client

from gpu_runner.contracts import HackClass
from stitchweb.core.permissions import TEAM, Who
from stitchweb.programs.models import Program
from stitchweb.programs.services import Upload, create_program
from stitchweb.review.models import Assignment, Hunch, Item, Project, Rubric
from stitchweb.review.services.labels import set_adjudicators
from stitchweb.review.services.projects import Filters, create_project, fill, set_reviewers
from stitchweb.review.services.queue import next_assignment
from stitchweb.runs.models import Job, Run
from stitchweb.teams.models import Role, Team, User
from stitchweb.teams.services import create_user, set_role
from tests.stitchweb.parts_for_tests import REFERENCE
from tests.stitchweb.test_review_pages import FORM, told_as
from tests.stitchweb.world_for_tests import World, make_world

SECRETS = ("Marmot", "marmot")  # in the names of the team and its programs: no stranger reads them anywhere


class Stage:
    """`people`: who comes as which `Who`. The owner started all runs, the reviewer scores in `project` and holds `assignment`,
    the maintainer settles there, a peer has scored an item (`scored`) and left a hunch on it. The outsider owns a team, too."""

    def __init__(self) -> None:
        self.world: World = make_world()
        self.team: Team = self.world.team
        Team.objects.filter(pk=self.team.pk).update(name="Marmot crew")
        Program.objects.filter(pk=self.world.program.pk).update(name="marmot_norm")
        Run.objects.filter(revision=self.world.revision).update(name="marmot_norm")
        self.people: dict[Who, User] = {Who.OWNER: self.world.owner, Who.VIEWER: self.world.viewer}
        for who in TEAM - set(self.people):
            self.people[who] = create_user(f"{who}@example.org", name=who.title())
            set_role(self.team, self.people[who], Role(who))
        self.people[Who.OUTSIDER] = self.world.outsider
        self.people[Who.OPERATOR] = create_user("operator@example.org", name="Op")
        User.objects.filter(pk=self.people[Who.OPERATOR].pk).update(is_staff=True)
        self.people[Who.OPERATOR].refresh_from_db()
        self._reviews()

    def _reviews(self) -> None:
        owner, reviewer = self.people[Who.OWNER], self.people[Who.REVIEWER]
        peer = create_user("peer@example.org", name="Peer")
        set_role(self.team, peer, Role.REVIEWER)
        revision = create_program(owner, self.team, Upload(REFERENCE + "\n# queued\n", "queued_norm.py"))
        klass = str(HackClass.OUTPUT_CACHE)
        told_as(
            dataclasses.replace(self.world, revision=revision), verdict=f"hack:{klass}", says="It remembers.", hack=klass,
            labels=["full-precision"], engineer="offline", owner=owner,
        )  # fmt: skip
        self.project: Project = create_project(
            owner, self.team, Rubric.objects.get(key="kernels", version=1), "Marmot norms", overlap=2
        )
        set_reviewers(owner, self.project, [reviewer.pk, peer.pk])
        set_adjudicators(owner, self.project, [self.people[Who.MAINTAINER].pk])
        fill(owner, self.project, Filters(program=revision.program_id))
        held = next_assignment(peer, self.project)
        assert held is not None
        scoring = Client()
        scoring.force_login(peer)
        scoring.post(f"/review/items/{held.pk}/", FORM | {"act": "submit"})
        self.scored: Item = held.item
        self.hunch: Hunch = Hunch.objects.create(assignment=held, number=1, note="tried", attached="anti_hacking")
        mine = next_assignment(reviewer, self.project)
        assert mine is not None
        self.assignment: Assignment = mine

    @cached_property
    def job(self) -> Job:
        return Job.objects.create(run=self.world.done, kind="check", queue="run.cpu", task={})
