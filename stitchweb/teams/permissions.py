"""What there is to do with the site as such, with accounts and with teams."""

from __future__ import annotations

from django.conf import settings

from stitchweb.core.permissions import ANYBODY, LINKED, MANAGERS, SIGNED_IN, TEAM, Action, Route, Who, form, get, post

HEALTH = Action("site.health", "Ask whether the site is well", ANYBODY)
SIGN_IN = Action("site.sign-in", "Sign in, sign out, ask for a new password", ANYBODY)
SIGN_UP = Action("site.sign-up", "Make an account", ANYBODY, "With an invitation, unless the site is open")
USE_LINK = Action("site.use-login-link", "Sign in by a login link", LINKED, "Once, within its time, for its own person")
USE_SITE = Action("site.use", "Open a page that lists what one's own teams have", SIGNED_IN, "Others' rows are not in it")

OWN_ACCOUNT = Action(
    "account.own", "Change one's name, addresses, password and second factors; take everything along; delete the account",
    SIGNED_IN, "One's own alone, and for what guards the account once more proved who one is",
)  # fmt: skip

MAKE_TEAM = Action("team.make", "Make a team", SIGNED_IN)
SEE_TEAM = Action("team.see", "Know that a team exists, its name and its people; leave it", TEAM)
MANAGE_PEOPLE = Action(
    "team.manage-people", "Invite people, change their roles, remove them", MANAGERS, "Owners: by owners alone"
)
CHANGE_OWNERS = Action("team.change-owners", "Make somebody owner, hand the team over", frozenset({Who.OWNER}))
RENAME_TEAM = Action("team.rename", "Change the name of a team", MANAGERS)
DELETE_TEAM = Action("team.delete", "Delete a team with all that it has", frozenset({Who.OWNER}))
USE_INVITATION = Action("team.use-invitation", "See what an invitation is for", LINKED)
JOIN = Action("team.join", "Join a team by an invitation", LINKED, "Signed in; within its time and number")

_SIGNING_IN = (
    "account_login", "account_logout", "account_reset_password", "account_reset_password_from_key",
    "account_request_login_code", "account_confirm_login_code", "account_email_verification_sent", "mfa_authenticate",
    "mfa_login_webauthn",
)  # fmt: skip
_SIGN_IN_TELLS = (
    "account_inactive", "account_reset_password_done", "account_reset_password_from_key_done", "socialaccount_login_cancelled",
    "socialaccount_login_error",
)  # fmt: skip
_OWN = (
    "account_reauthenticate", "account_request_reauthentication_code", "account_confirm_reauthentication_code", "account_email",
    "account_change_password", "account_set_password", "mfa_index", "mfa_reauthenticate", "mfa_view_recovery_codes",
    "mfa_generate_recovery_codes", "mfa_download_recovery_codes", "mfa_activate_totp", "mfa_deactivate_totp",
    "mfa_list_webauthn", "mfa_add_webauthn", "mfa_reauthenticate_webauthn", "mfa_remove_webauthn", "mfa_edit_webauthn",
    "socialaccount_connections",
)  # fmt: skip


def _elsewhere() -> dict[str, Route]:
    """The addresses of the other sites to sign in by, as far as there are any."""
    names = dict.fromkeys(settings.SOCIALACCOUNT_PROVIDERS, ("login", "callback"))
    if "saml" in names:
        names["saml"] = ("login", "acs", "finish_acs", "sls", "metadata")
    if "google" in names:
        names["google"] = ("login", "callback", "login_by_token")
    return {f"{provider}_{end}": form(SIGN_IN) for provider, ends in names.items() for end in ends}


ROUTES = {
    "health": get(HEALTH),
    "login-link": get(USE_LINK),
    **{name: form(SIGN_IN) for name in _SIGNING_IN},
    **{name: get(SIGN_IN) for name in _SIGN_IN_TELLS},
    **{name: form(OWN_ACCOUNT) for name in _OWN},
    **_elsewhere(),
    "account_signup": form(SIGN_UP),
    "socialaccount_signup": form(SIGN_UP),
    "account": form(OWN_ACCOUNT),
    "account-export": Route(post=OWN_ACCOUNT, limit="export"),
    "account-delete": form(OWN_ACCOUNT),
    "teams": Route(get=USE_SITE, post=MAKE_TEAM),
    "team-choose": post(USE_SITE),
    "team": Route(get=SEE_TEAM, post=RENAME_TEAM),
    "team-invite": Route(post=MANAGE_PEOPLE, limit="invite"),
    "team-uninvite": post(MANAGE_PEOPLE),
    "team-role": post(MANAGE_PEOPLE),
    "team-remove": post(MANAGE_PEOPLE),
    "team-transfer": post(CHANGE_OWNERS),
    "team-leave": post(SEE_TEAM),
    "team-delete": form(DELETE_TEAM),
    "invitation": Route(get=USE_INVITATION, post=JOIN),
}
