"""The states of pages about accounts and teams, for `tools/states.py`."""

from __future__ import annotations

from stitchweb.teams.invitations import invite
from stitchweb.teams.models import Role, Team, User

Pages = dict[str, tuple[str, str]]


def people_pages(team: Team, owner: User) -> Pages:
    """Name: who looks and where. Who signed in by a link this moment need not prove once more who they are."""
    place = f"/teams/{team.slug}/"
    _, address = invite(owner, team, Role.MEMBER, most=3)
    invite(owner, team, Role.REVIEWER, "somebody.with.a.long.name@research.example.org")
    invitation = f"/invitations/{address.rpartition('/')[2]}"
    guarded = {
        "addresses": "email/", "password-set": "password/set/", "factors": "2fa/", "app-add": "2fa/totp/activate/",
        "passkeys": "2fa/webauthn/", "passkey-add": "2fa/webauthn/add/", "elsewhere": "elsewhere/", "account-delete": "delete",
    }  # fmt: skip
    entrance = {
        "signup-closed": "/account/signup/",
        "password-reset": "/account/password/reset/",
        "code": "/account/login/code/",
    }
    return {
        "account": ("ada", "/account/"),
        **{name: ("ada", f"/account/{path}") for name, path in guarded.items()},
        "teams": ("ada", "/teams/"),
        "team": ("ada", place),
        "team-viewer": ("vera", place),
        "team-delete": ("ada", f"{place}delete"),
        "invitation": ("oscar", invitation),
        "invitation-dead": ("oscar", "/invitations/nonsense"),
        **{name: ("", path) for name, path in entrance.items()},
        "invitation-stranger": ("", invitation),
    }
