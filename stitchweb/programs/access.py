"""Which programs a person may see or change."""

from __future__ import annotations

from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404

from stitchweb.core.permissions import Action
from stitchweb.core.withheld import open_to, refuse_closed
from stitchweb.programs.models import Program, Revision, Suite
from stitchweb.programs.permissions import SEE
from stitchweb.teams.access import Person, require, teams_for


def programs_for(user: Person, action: Action = SEE) -> QuerySet[Program]:
    """Programs of the person's teams, newest first, without what is closed to them now. `revision_id`: the newest revision."""
    newest = Revision.objects.filter(program=OuterRef("pk")).order_by("-number").values("pk")[:1]
    return (
        Program.objects.filter(open_to(user), team__in=teams_for(user, action))
        .select_related("team", "suite", "created_by")
        .annotate(revision_id=Subquery(newest))
    )


def program_for(user: Person, pk: int, action: Action = SEE) -> Program:
    """The program, or Http404; PermissionDenied for those who see it but may not do `action`, or while it is closed to them."""
    program = programs_for(user).filter(pk=pk).first()
    if program is None:
        if Program.objects.filter(pk=pk, team__in=teams_for(user, SEE)).exists():
            refuse_closed(user, pk)
        raise Http404("There is no such program, or it is not shared with you.")
    if action is not SEE:
        require(user, program.team_id, action)
    return program


def revision_for(user: Person, pk: int, action: Action = SEE) -> Revision:
    """The revision with its program and team, or Http404 or PermissionDenied as above."""
    revision = (
        Revision.objects.filter(open_to(user, "program"), pk=pk, program__team__in=teams_for(user, SEE))
        .select_related("program", "program__team")
        .first()
    )
    if revision is None:
        raise Http404("There is no such revision, or it is not shared with you.")
    if action is not SEE:
        require(user, revision.program.team_id, action)
    return revision


def suites_for(user: Person) -> QuerySet[Suite]:
    """Suites of the person's teams, newest first."""
    return Suite.objects.filter(team__in=teams_for(user, SEE)).select_related("team", "created_by")


def suite_for(user: Person, pk: int) -> Suite:
    suite = suites_for(user).filter(pk=pk).first()
    if suite is None:
        raise Http404("There is no such suite, or it is not shared with you.")
    return suite
