"""Signing in, accounts, people and teams."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from stitchweb.core.permissions import Who
from stitchweb.teams.invitations import invite
from stitchweb.teams.models import Invitation, Membership, Role
from stitchweb.teams.services import make_login_link, use_login_link
from tests.stitchweb.matrix import Visit, Visits
from tests.stitchweb.matrix.stage import Stage

# Whether these answer depends on what the person has begun, or on having proved once more who they are.
_BEGUN = (
    "account_confirm_login_code", "account_email_verification_sent", "account_inactive", "mfa_authenticate",
    "socialaccount_signup", "account_signup", "account_reauthenticate", "account_request_reauthentication_code",
    "account_confirm_reauthentication_code", "account_change_password", "account_set_password", "mfa_reauthenticate",
    "mfa_view_recovery_codes", "mfa_generate_recovery_codes", "mfa_download_recovery_codes", "mfa_activate_totp",
    "mfa_deactivate_totp", "mfa_list_webauthn", "mfa_add_webauthn", "mfa_reauthenticate_webauthn", "mfa_index",
    "account-delete", "socialaccount_connections",
)  # fmt: skip


def _token(stage: Stage, *, life: timedelta = timedelta(hours=1)) -> str:
    return make_login_link(stage.people[Who.OWNER], life=life).removeprefix("/login/")


def _invitation(stage: Stage, **fields: object) -> dict[str, str]:
    made, address = invite(stage.people[Who.OWNER], stage.team, Role.VIEWER)
    Invitation.objects.filter(pk=made.pk).update(**fields)
    return {"token": address.rpartition("/")[2]}


def visits(stage: Stage) -> Visits:
    used, now = _token(stage), timezone.now()
    use_login_link(used)
    links = {
        Who.LINK: ({"token": _token(stage)},),
        Who.DEAD_LINK: ({"token": used}, {"token": _token(stage, life=timedelta(seconds=-1))}),
    }
    invitations = {
        Who.LINK: (_invitation(stage),),
        Who.DEAD_LINK: (
            _invitation(stage, revoked_at=now), _invitation(stage, expires_at=now), _invitation(stage, used=1),
        ),
    }  # fmt: skip
    team = {"slug": stage.team.slug}
    viewer = Membership.objects.get(team=stage.team, user=stage.people[Who.VIEWER])
    member = team | {"pk": viewer.pk}
    open_invitation = Invitation.objects.filter(team=stage.team).first()
    assert open_invitation is not None
    nobody: frozenset[Who] = frozenset()
    return {
        "health": Visit(),
        "account_login": Visit(),
        "account_logout": Visit(),
        # A dead link asks the row whether it can still be spent. Who is signed in already is led on.
        "login-link": Visit({"token": "unknown"}, links=links, writes=True, refused=(302,)),
        "account_reset_password": Visit(),
        "account_reset_password_done": Visit(),
        "account_reset_password_from_key": Visit({"uidb36": "1", "key": "x-y"}),
        "account_reset_password_from_key_done": Visit(),
        "account_request_login_code": Visit(),
        "mfa_login_webauthn": Visit(),
        "socialaccount_login_cancelled": Visit(),
        "socialaccount_login_error": Visit(opens=(401,)),
        "account_email": Visit(),
        "mfa_remove_webauthn": Visit({"pk": 1}, meets=nobody),
        "mfa_edit_webauthn": Visit({"pk": 1}, meets=nobody),
        **{name: Visit(meets=nobody) for name in _BEGUN},
        "account": Visit(),
        "account-export": Visit(),
        "teams": Visit(data={"name": "Another"}),
        "team-choose": Visit(),
        "team": Visit(team, data={"name": "Marmots"}),
        "team-invite": Visit(team, data={"role": "viewer"}),
        "team-uninvite": Visit(team | {"pk": open_invitation.pk}),
        "team-role": Visit(member, data={"role": "member"}),
        "team-remove": Visit(member),
        "team-transfer": Visit(team, data={"member": viewer.pk}),
        "team-leave": Visit(team),
        "team-delete": Visit(team, data={"name": "Marmot crew"}),
        # Who is not signed in joins nothing yet: they are sent to sign in first.
        "invitation": (
            Visit({"token": "unknown"}, links=invitations, method="GET"),
            Visit({"token": "unknown"}, links=invitations, method="POST", meets=nobody),
        ),
    }
