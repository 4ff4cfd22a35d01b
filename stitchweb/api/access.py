"""Which tokens a person may see and revoke: their own."""

from __future__ import annotations

from django.db.models import QuerySet
from django.http import Http404

from stitchweb.api.models import ApiToken
from stitchweb.teams.access import Person


def tokens_for(user: Person) -> QuerySet[ApiToken]:
    """The person's tokens, newest first."""
    return ApiToken.objects.filter(user=user.pk)


def token_for(user: Person, pk: int) -> ApiToken:
    """One of them, or Http404."""
    row = tokens_for(user).filter(pk=pk).first()
    if row is None:
        raise Http404("There is no such token, or it is somebody else's.")
    return row
