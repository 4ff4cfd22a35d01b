"""Invitations to a team: made by those who manage it, used by whoever has the link."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction
from django.db.models import F
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from stitchweb.teams.access import require
from stitchweb.teams.models import Invitation, Membership, Role, Team, User
from stitchweb.teams.permissions import CHANGE_OWNERS, MANAGE_PEOPLE
from stitchweb.teams.services import digest, new_token

LIFE = timedelta(days=7)
MOST = 50
KEY = "invitation"


class InvitationRefused(Exception):
    """It lets nobody in. The message is for the person."""


def invite(user: User, team: Team, role: Role, email: str = "", most: int = 1) -> tuple[Invitation, str]:
    """An invitation and its address. With `email` it is sent there, for that one person; else a link for up to `most` people.

    PermissionDenied for who may not manage people, or not make owners.
    """
    require(user, team.pk, CHANGE_OWNERS if role is Role.OWNER else MANAGE_PEOPLE)
    token = new_token()
    invitation = Invitation.objects.create(
        team=team,
        role=role,
        email=email.strip().lower(),
        token_sha256=digest(token),
        most=1 if email else max(1, min(most, MOST)),
        created_by=user,
        expires_at=timezone.now() + LIFE,
    )
    address = f"{settings.SITE_URL}{reverse('invitation', args=[token])}"
    if email:
        context = {"team": team, "role": role, "by": user, "address": address, "until": invitation.expires_at}
        text = render_to_string("teams/mail/invitation.txt", context)
        transaction.on_commit(lambda: send_mail(f"{user} invites you to {team}", text, None, [invitation.email]))
    return invitation, address


def revoke(user: User, team: Team, pk: int) -> None:
    """Let nobody in by it any more."""
    require(user, team.pk, MANAGE_PEOPLE)
    Invitation.objects.filter(team=team, pk=pk, revoked_at=None).update(revoked_at=timezone.now())


def find(token: str) -> Invitation:
    """The invitation of a token. InvitationRefused with the reason where it lets nobody in."""
    found = Invitation.objects.select_related("team", "created_by").filter(token_sha256=digest(token)).first()
    if found is None:
        raise InvitationRefused("This invitation is not known here. Copy the link whole, or ask for a new one.")
    if not found.good:
        raise InvitationRefused("This invitation has been used, has expired or was taken back. Ask for a new one.")
    return found


@transaction.atomic
def accept(user: User, token: str) -> Membership:
    """Join the team. InvitationRefused where it lets nobody in. Who is in the team keeps their role and spends nothing."""
    invitation = find(token)
    member = Membership.objects.filter(team=invitation.team, user=user).select_related("team").first()
    if member is not None:
        return member
    taken = Invitation.objects.usable().filter(pk=invitation.pk).update(used=F("used") + 1)
    if not taken:
        raise InvitationRefused("This invitation was used by somebody else at this moment. Ask for a new one.")
    return Membership.objects.create(team=invitation.team, user=user, role=invitation.role)


def remember(request: HttpRequest, token: str) -> None:
    """Keep the invitation while its person signs in or makes an account."""
    request.session[KEY] = token


def waiting(request: HttpRequest) -> Invitation | None:
    """The invitation that this browser came with, if it is still good."""
    token = request.session.get(KEY)
    if not token:
        return None
    try:
        return find(token)
    except InvitationRefused:
        return None
