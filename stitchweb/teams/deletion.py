"""Deletion that really deletes: rows by the database's own references, files and contents by what each app says of them."""

from __future__ import annotations

from collections.abc import Iterator

from django.contrib.sessions.models import Session
from django.core.files.storage import Storage
from django.db import models, router, transaction
from django.db.models.deletion import Collector

from stitchweb.core.leaving import partings
from stitchweb.teams.access import require
from stitchweb.teams.models import Membership, Role, Team, User
from stitchweb.teams.people import Refused
from stitchweb.teams.permissions import DELETE_TEAM

Counts = dict[str, int]


@transaction.atomic
def delete_team(by: User, team: Team) -> Counts:
    """The team with programs, runs, reviews and all else; how many rows went, by table. Files go when it is committed.

    Runs under way end at their next step, for there is nothing left to write to.
    """
    require(by, team.pk, DELETE_TEAM)
    return _delete_team(team)


@transaction.atomic
def delete_account(user: User) -> Counts:
    """The person, with teams that nobody else is in; how many rows went. What they made in teams of others stays there,
    without their name.

    Refused while they are the only owner of a team with others in it.
    """
    alone, stuck = _teams_of(user)
    if stuck:
        names = ", ".join(str(team) for team in stuck)
        raise Refused(f"You are the only owner of {names}, and others are in it. Hand it over or delete it first.")
    counts: Counts = {}
    for team in alone:
        _add(counts, _delete_team(team))
    for parting in partings():
        parting.person(user)
    _add(counts, {"sessions.Session": _end_sessions(user)})
    _add(counts, _delete(user))
    return counts


def _teams_of(user: User) -> tuple[list[Team], list[Team]]:
    """The teams that only this person is in, and those with others that have no other owner."""
    alone, stuck = [], []
    for row in Membership.objects.filter(user=user).select_related("team"):
        others = Membership.objects.filter(team=row.team).exclude(user=user)
        if not others.exists():
            alone.append(row.team)
        elif row.role == Role.OWNER and not others.filter(role=Role.OWNER).exists():
            stuck.append(row.team)
    return alone, stuck


def _delete_team(team: Team) -> Counts:
    after = [parting.team(team) for parting in partings()]
    counts = _delete(team)
    for act in after:
        act()
    return counts


def _delete(row: models.Model) -> Counts:
    """Delete a row with all that refers to it, and after the commit the files that those rows named."""
    files = [(storage, name) for storage, name in _files(row)]
    _, counts = row.delete()

    def remove() -> None:
        for storage, name in files:
            storage.delete(name)

    transaction.on_commit(remove)
    return counts


def _files(row: models.Model) -> Iterator[tuple[Storage, str]]:
    """The stored files of all rows that go with this one."""
    collector = Collector(using=router.db_for_write(type(row)), origin=row)
    collector.collect([row])
    for rows in collector.fast_deletes:
        for field in _file_fields(rows.model):
            yield from ((field.storage, name) for name in rows.values_list(field.name, flat=True) if name)
    for model, instances in collector.data.items():
        for field in _file_fields(model):
            yield from ((field.storage, file.name) for one in instances if (file := getattr(one, field.name)))


def _file_fields(model: type[models.Model]) -> list[models.FileField]:
    return [field for field in model._meta.get_fields() if isinstance(field, models.FileField)]


def _end_sessions(user: User) -> int:
    """Every browser of the person is signed out."""
    theirs = [row.pk for row in Session.objects.iterator() if row.get_decoded().get("_auth_user_id") == str(user.pk)]
    Session.objects.filter(pk__in=theirs).delete()
    return len(theirs)


def _add(to: Counts, more: Counts) -> None:
    for name, count in more.items():
        to[name] = to.get(name, 0) + count
