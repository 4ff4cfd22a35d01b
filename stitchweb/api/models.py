"""ApiToken and Answered."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import models
from django.utils import timezone


class Scope(models.TextChoices):
    """What a token may be used for, beside what its person may do anyway."""

    READ = "read", "See teams, programs, runs, candidates; watch runs; take files home"
    UPLOAD = "upload", "Upload programs and revisions"
    RUN = "run", "Start and cancel runs"
    REVIEW = "review", "See review projects, bring candidates in, take labels out"


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def usable(self, now: datetime | None = None) -> ApiTokenQuerySet:
        return self.filter(expires_at__gt=now or timezone.now(), user__is_active=True)


class ApiToken(models.Model):
    """A person's key for programs. Only its digest is kept; it was shown once. `ending`: its last four characters."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=80)
    digest = models.CharField(max_length=64, unique=True)
    ending = models.CharField(max_length=4)
    scopes = models.JSONField()
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="token_names_once")]

    def __str__(self) -> str:
        return f"token {self.name} of {self.user_id}"

    @property
    def expired(self) -> bool:
        return self.expires_at <= timezone.now()


class Answered(models.Model):
    """The answer to a request that came with an idempotency key. `key`: of method, address and key; `content`: of the body."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=64)
    content = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(default=0)
    place = models.CharField(max_length=300, blank=True)
    body = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="answered_once")]

    def __str__(self) -> str:
        return f"{self.key[:8]} → {self.status}"
