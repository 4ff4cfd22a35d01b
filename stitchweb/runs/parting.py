"""What runs leave behind when a team or a person goes: contents that no run uses any more, and names in histories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import Q

from stitchweb.core.leaving import Parting
from stitchweb.runs.models import Blob, Event, Run, RunState, Snapshot

GONE = "somebody who left"
_NAMED = ("control.changed", "replay.changed")
_AT_ONCE = 500


def _team(team: Any) -> Callable[[], None]:
    """Afterwards: contents that only this team's runs used, with their files."""
    theirs = list(Blob.objects.filter(runs__team=team).values_list("pk", flat=True).distinct())

    def after() -> None:
        for keys in _portions(theirs):
            left = Blob.objects.filter(pk__in=keys, runs=None)
            for name in left.exclude(file="").values_list("file", flat=True):
                transaction.on_commit(lambda name=name: default_storage.delete(name))
            left.delete()

    return after


def _person(user: Any) -> None:
    """Their name in what runs told goes; that somebody did it stays. Histories hold names alone, so what somebody else of the
    very same name did in these runs loses it, too."""
    name = str(user)[:120]
    runs = Run.objects.filter(Q(owner=user) | Q(controls__user=user) | Q(team__memberships__user=user)).order_by()
    for keys in _portions(sorted(set(runs.values_list("pk", flat=True)))):
        told = Event.objects.filter(run__in=keys)
        touched = set(told.filter(who=name).values_list("run_id", flat=True))
        told.filter(who=name).update(who=GONE)
        for event in told.filter(kind__in=_NAMED, payload__by=name).iterator():
            Event.objects.filter(run=event.run_id, seq=event.seq).update(payload=event.payload | {"by": GONE})
            touched.add(event.run_id)
        Snapshot.objects.filter(run__in=touched).delete()
        for stored in RunState.objects.filter(run__in=touched):
            stored.state = _without(stored.state, name)
            stored.save(update_fields=["state"])


def _without(value: Any, name: str) -> Any:
    """The same JSON with every `by` that holds the name replaced."""
    if isinstance(value, dict):
        return {key: GONE if key == "by" and one == name else _without(one, name) for key, one in value.items()}
    return [_without(one, name) for one in value] if isinstance(value, list) else value


def _portions(keys: list[Any]) -> Any:
    return (keys[at : at + _AT_ONCE] for at in range(0, len(keys), _AT_ONCE))


PARTING = Parting(team=_team, person=_person)
