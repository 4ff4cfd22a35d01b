"""Addresses of people: signing in and out, accounts, teams, invitations."""

from __future__ import annotations

from allauth.account import views as signing
from allauth.account.urls import urlpatterns as account_urls
from allauth.socialaccount.urls import urlpatterns as elsewhere_urls
from allauth.urls import build_provider_urlpatterns
from django.urls import include, path

from stitchweb.teams.links import login_link
from stitchweb.teams.views import account, invitation, team

_OURS = ("account_login", "account_logout")

urlpatterns = [
    path("login/", signing.login, name="account_login"),
    path("login/<str:token>", login_link, name="login-link"),
    path("logout/", signing.logout, name="account_logout"),
    path("account/", account.account, name="account"),
    path("account/export", account.export_account, name="account-export"),
    path("account/delete", account.delete, name="account-delete"),
    path("account/", include([one for one in account_urls if one.name not in _OURS])),
    path("account/2fa/", include("allauth.mfa.urls")),
    path("account/elsewhere/", include(elsewhere_urls)),
    path("account/by/", include(build_provider_urlpatterns())),
    path("teams/", team.teams, name="teams"),
    path("teams/choose", team.choose_team, name="team-choose"),
    path("teams/<slug:slug>/", team.team, name="team"),
    path("teams/<slug:slug>/invite", team.invite_people, name="team-invite"),
    path("teams/<slug:slug>/invitations/<int:pk>/revoke", team.uninvite, name="team-uninvite"),
    path("teams/<slug:slug>/people/<int:pk>/role", team.change_role, name="team-role"),
    path("teams/<slug:slug>/people/<int:pk>/remove", team.remove, name="team-remove"),
    path("teams/<slug:slug>/transfer", team.transfer, name="team-transfer"),
    path("teams/<slug:slug>/leave", team.leave, name="team-leave"),
    path("teams/<slug:slug>/delete", team.delete, name="team-delete"),
    path("invitations/<str:token>", invitation.invitation, name="invitation"),
]
