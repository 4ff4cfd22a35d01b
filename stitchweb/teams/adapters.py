"""What django-allauth asks this site: who may make an account, what an invitation has proved, how secrets are sealed."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from cryptography.fernet import Fernet
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from stitchweb.teams.invitations import waiting
from stitchweb.teams.models import User


class Accounts(DefaultAccountAdapter):
    """Accounts are for those who were invited, unless the site is open."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return settings.SIGN_UP == "open" or waiting(request) is not None

    def is_email_verified(self, request: HttpRequest, email: str) -> bool:
        """An invitation that came by mail has proved the address it was sent to. Where no mail can be sent, any invitation has
        to do: nobody would ever get the code."""
        invitation = waiting(request)
        proved = invitation is not None and (invitation.email == email.lower() or not settings.EMAIL_HOST)
        return proved or super().is_email_verified(request, email)

    def new_user(self, request: HttpRequest) -> User:
        return User()

    def clean_email(self, email: str) -> str:
        return super().clean_email(email).lower()

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        """PermissionDenied with what to do for somebody who has no password and no second factor: only a link lets them in."""
        methods = super().get_reauthentication_methods(user)
        if not methods and user.is_authenticated:
            raise PermissionDenied(
                "This asks once more who you are, and you have no password yet. Sign in again by a link (manage.py login_link),"
                " then set a password within a quarter of an hour."
            )
        return methods


class SecondFactors(DefaultMFAAdapter):
    """The secrets of authenticator apps are sealed in the database, with a key made from SECRET_KEY."""

    def encrypt(self, text: str) -> str:
        return _seal().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return _seal().decrypt(encrypted_text.encode()).decode()


def _seal() -> Fernet:
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(b"stitchweb.second-factor:" + settings.SECRET_KEY.encode()).digest()))
