"""Collections: made, filled, renamed, deleted."""

from __future__ import annotations

from django.db import IntegrityError, transaction

from stitchweb.sharing.access import collection_for, publication_for
from stitchweb.sharing.models import Collection
from stitchweb.sharing.permissions import COLLECT
from stitchweb.teams.access import team_for
from stitchweb.teams.models import User

MAX_DESCRIPTION = 4_000


class CollectionRefused(Exception):
    """The collection cannot be so. The message says why and what to do."""


def _checked(name: str, description: str) -> tuple[str, str]:
    name = " ".join(name.split())
    if not name:
        raise CollectionRefused("A collection needs a name.")
    if len(name) > 120:
        raise CollectionRefused(f"The name has {len(name)} characters; at most 120 are kept. Shorten it.")
    if len(description) > MAX_DESCRIPTION:
        raise CollectionRefused(f"The description has {len(description)} characters; at most {MAX_DESCRIPTION} are kept.")
    return name, description.strip()


def create_collection(user: User, team_slug: str, name: str, description: str = "") -> Collection:
    """An empty collection of a team in which the person is a member. CollectionRefused for a name that is taken."""
    team = team_for(user, team_slug, COLLECT)
    name, description = _checked(name, description)
    return _saved(Collection(team=team, name=name, description=description, created_by=user))


def change_collection(user: User, pk: int, name: str, description: str) -> Collection:
    row = collection_for(user, pk, COLLECT)
    row.name, row.description = _checked(name, description)
    return _saved(row)


def _saved(row: Collection) -> Collection:
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        raise CollectionRefused(f"The team has a collection named {row.name}. Choose another name.") from None
    return row


@transaction.atomic
def put_in(user: User, pk: int, publication_pk: int) -> Collection:
    """Add one version of a publication of the same team."""
    row = collection_for(user, pk, COLLECT)
    publication = publication_for(user, publication_pk)
    if publication.team_id != row.team_id:
        raise CollectionRefused("A collection holds publications of its own team alone.")
    if publication.withdrawn_at:
        raise CollectionRefused(f"{publication} was withdrawn. Add another version.")
    row.publications.add(publication)
    return row


def take_out(user: User, pk: int, publication_pk: int) -> Collection:
    row = collection_for(user, pk, COLLECT)
    row.publications.remove(publication_pk)
    return row


def delete_collection(user: User, pk: int) -> None:
    """The collection alone; what was in it stays published."""
    collection_for(user, pk, COLLECT).delete()
