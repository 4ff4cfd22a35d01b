"""Notification, Choice, Hook and Delivery."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.conf import settings
from django.db import models
from django.utils import timezone

from stitchweb.notify.kinds import KINDS
from stitchweb.teams.models import Team

NAMES = [(kind.name, kind.title) for kind in KINDS.values()]


class Notification(models.Model):
    """One thing told to one person. `place`: a path of this site; `about`: what it is about, so that it is told once.

    `shown`: on the page of notifications; otherwise it is there for the mail alone.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notifications")
    team = models.ForeignKey(Team, null=True, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=24, choices=NAMES)
    sentence = models.CharField(max_length=400)
    place = models.CharField(max_length=200)
    about = models.CharField(max_length=80)
    shown = models.BooleanField(default=True)
    at = models.DateTimeField(default=timezone.now)
    read_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-pk"]
        constraints = [models.UniqueConstraint(fields=["user", "kind", "about"], name="told_once")]
        indexes = [
            models.Index(fields=["user", "-id"], name="told_newest", condition=models.Q(shown=True)),
            models.Index(fields=["user"], name="told_unread", condition=models.Q(shown=True, read_at=None)),
        ]

    def __str__(self) -> str:
        return self.sentence


class Choice(models.Model):
    """A person's choice for one kind and way. Without a row the kind's own default holds."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=24, choices=NAMES)
    way = models.CharField(max_length=8)
    wanted = models.BooleanField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "kind", "way"], name="chosen_once")]

    def __str__(self) -> str:
        return f"{self.kind} {self.way}: {self.wanted}"


class Hook(models.Model):
    """A team's web hook. `sealed`: the secret that signs what is sent; `failures`: deliveries given up in a row.

    `stopped`: nothing is sent to it, in a sentence why; empty while it works.
    """

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="hooks")
    ident = models.UUIDField(default=uuid.uuid4, unique=True)  # what the sealed secret is bound to
    name = models.CharField(max_length=80)
    url = models.CharField(max_length=400)
    kinds = models.JSONField()
    sealed = models.TextField()
    failures = models.PositiveSmallIntegerField(default=0)
    stopped = models.CharField(max_length=200, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.name


class DeliveryState(models.TextChoices):
    WAITING = "waiting"
    SENT = "sent"
    GIVEN_UP = "given up"


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def due(self, now: datetime) -> DeliveryQuerySet:
        """What may be tried now and nobody tries: `next_at` moves on while somebody does."""
        return self.filter(state=DeliveryState.WAITING, next_at__lte=now)


class Delivery(models.Model):
    """One message on its way: of a hook, or the mail of a notification. The row is the outbox and the log.

    `body`: what is sent, the same at each try; `answer`: the last status or error, in words.
    """

    ident = models.UUIDField(default=uuid.uuid4, unique=True)
    hook = models.ForeignKey(Hook, null=True, on_delete=models.CASCADE, related_name="deliveries")
    notification = models.OneToOneField(Notification, null=True, on_delete=models.CASCADE, related_name="delivery")
    kind = models.CharField(max_length=24)
    about = models.CharField(max_length=80, blank=True)
    body = models.TextField(blank=True)
    state = models.CharField(max_length=8, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    tries = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField(default=timezone.now)
    answer = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    done_at = models.DateTimeField(null=True, blank=True)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(hook__isnull=False, notification__isnull=True)
                | models.Q(hook__isnull=True, notification__isnull=False),
                name="delivery_has_one_way",
            )
        ]
        indexes = [models.Index(fields=["next_at"], name="delivery_due", condition=models.Q(state="waiting"))]

    def __str__(self) -> str:
        return f"{self.kind}: {self.state}"
