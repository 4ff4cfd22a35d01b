"""User, Team, Membership, Invitation and LoginLink."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone


class Role(models.TextChoices):
    """What a person may do in a team, from most to least. Who may what stands in `access.py`."""

    OWNER = "owner"
    MAINTAINER = "maintainer"
    MEMBER = "member"
    REVIEWER = "reviewer"
    VIEWER = "viewer"


class UserManager(BaseUserManager["User"]):
    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        """A person. Without a password only a login link lets them in. ValueError without an e-mail address."""
        if "@" not in email:
            raise ValueError("A user needs an e-mail address.")
        user = self.model(email=email.strip().lower(), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> User:
        return self.create_user(email, password, is_staff=True, is_superuser=True, **fields)

    def get_by_natural_key(self, email: str | None) -> User:
        return self.get(email=(email or "").strip().lower())


class User(AbstractBaseUser, PermissionsMixin):
    """A person, known by e-mail address (kept in lower case)."""

    email = models.EmailField(unique=True)
    name = models.CharField(max_length=120, blank=True)
    is_active = models.BooleanField(default=True)
    is_staff = models.BooleanField(default=False)
    date_joined = models.DateTimeField(default=timezone.now)

    objects = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: list[str] = []

    class Meta:
        constraints = [models.UniqueConstraint(Lower("email"), name="one_user_per_email")]

    def __str__(self) -> str:
        return self.name or self.email

    def get_full_name(self) -> str:
        return str(self)

    def get_short_name(self) -> str:
        return self.name.split(" ")[0] if self.name else self.email.split("@")[0]


class Team(models.Model):
    """The workspace that owns programs and runs. `synthetic`: filled by seed_demo."""

    name = models.CharField(max_length=120)
    slug = models.SlugField(max_length=60, unique=True)
    members = models.ManyToManyField(User, through="Membership", related_name="teams")
    synthetic = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """One person's role in one team."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.MEMBER)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "user"], name="one_membership_per_person"),
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.team}"


class InvitationQuerySet(models.QuerySet["Invitation"]):
    def usable(self, now: datetime | None = None) -> InvitationQuerySet:
        return self.filter(revoked_at=None, expires_at__gt=now or timezone.now(), used__lt=models.F("most"))


class Invitation(models.Model):
    """A way into a team with a role, by a link whose digest alone is kept. `email`: to whom it was sent, "" for a link to be
    handed on. `most`: how many may come in by it, `used`: how many have."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="invitations")
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.MEMBER)
    email = models.EmailField(blank=True)
    token_sha256 = models.CharField(max_length=64, unique=True)
    most = models.PositiveIntegerField(default=1)
    used = models.PositiveIntegerField(default=0)
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = InvitationQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="invitation_role_known"),
            models.CheckConstraint(condition=models.Q(used__lte=models.F("most")), name="invitation_not_overused"),
        ]

    def __str__(self) -> str:
        return f"{self.email or 'whoever has the link'} to {self.team} as {self.role}"

    @property
    def good(self) -> bool:
        return self.revoked_at is None and self.expires_at > timezone.now() and self.used < self.most


class LoginLinkQuerySet(models.QuerySet["LoginLink"]):
    def usable(self, now: datetime | None = None) -> LoginLinkQuerySet:
        return self.filter(used_at=None, expires_at__gt=now or timezone.now(), user__is_active=True)


class LoginLink(models.Model):
    """A sign-in that works once. Only the digest of its token is kept."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="login_links")
    token_sha256 = models.CharField(max_length=64, unique=True)
    next_path = models.CharField(max_length=200, default="/")
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    objects = LoginLinkQuerySet.as_manager()

    def __str__(self) -> str:
        return f"login link of {self.user}"
