"""Every write about people and teams."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from allauth.account.models import EmailAddress
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.text import slugify

from stitchweb.teams.models import LoginLink, Membership, Role, Team, User

LINK_LIFE = timedelta(hours=24)


class LinkRefused(Exception):
    """The login link does not let anybody in. The message is for the person."""


@transaction.atomic
def create_user(email: str, password: str | None = None, name: str = "") -> User:
    """A person without a team, whose address the caller vouches for. IntegrityError when it is taken."""
    user = User.objects.create_user(email, password, name=name)
    EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
    return user


@transaction.atomic
def create_team(owner: User, name: str, *, synthetic: bool = False) -> Team:
    """A team with its owner. The slug follows the name and is made unique with a number."""
    base = slugify(name)[:50] or "team"
    for number in range(1, 1000):
        slug = base if number == 1 else f"{base}-{number}"
        try:
            with transaction.atomic():
                team = Team.objects.create(name=name, slug=slug, synthetic=synthetic)
            break
        except IntegrityError:
            continue
    else:
        raise ValueError(f"There are a thousand teams named {name!r}. Choose another name.")
    Membership.objects.create(team=team, user=owner, role=Role.OWNER)
    return team


def set_name(user: User, name: str) -> None:
    """What the person is called from now on; "" for their address."""
    user.name = name.strip()[:120]
    user.save(update_fields=["name"])


def set_role(team: Team, user: User, role: Role) -> Membership:
    """Put a person into a team, or change what they may do in it."""
    membership, _ = Membership.objects.update_or_create(team=team, user=user, defaults={"role": role})
    return membership


def make_login_link(user: User, next_path: str = "/", life: timedelta = LINK_LIFE) -> str:
    """The path of a link that signs `user` in once, then leads to `next_path` (of this site). Its token is not stored."""
    token = new_token()
    LoginLink.objects.create(user=user, token_sha256=digest(token), next_path=next_path, expires_at=timezone.now() + life)
    return f"/login/{token}"


def use_login_link(token: str) -> LoginLink:
    """Spend the link. Two browsers that open it at once: one gets in. LinkRefused with the reason otherwise."""
    link = LoginLink.objects.select_related("user").filter(token_sha256=digest(token)).first()
    if link is None:
        raise LinkRefused("This login link is not known here. Copy it whole from the terminal, or ask for a new one.")
    if not LoginLink.objects.usable().filter(pk=link.pk).update(used_at=timezone.now()):
        raise LinkRefused("This login link has been used or has expired. Make a new one with: manage.py login_link")
    return link


def new_token() -> str:
    """What a link holds: nobody guesses it."""
    return secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()
