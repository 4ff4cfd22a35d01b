"""Forms that were sent, so that none is taken twice."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone


class Submission(models.Model):
    """A form that came to something. `key`: of the form as it was shown and of what it said. `place`: where its answer lies."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=64)
    place = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="submitted_once")]

    def __str__(self) -> str:
        return f"{self.key[:8]} → {self.place}"
