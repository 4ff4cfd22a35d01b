"""Suite, Program and Revision."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from gpu_runner.contracts import Analysis, Source
from stitchweb.teams.models import Team


class Suite(models.Model):
    """Programs that came together, from a zip or a folder; judged together (fast_p)."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="suites")
    name = models.CharField(max_length=120)
    description = models.TextField(blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    synthetic = models.BooleanField(default=False)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return self.name


class Program(models.Model):
    """A PyTorch reference over time. `level`: the N of a folder `levelN` it came in. `path`: its place in the suite."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="programs")
    suite = models.ForeignKey(Suite, null=True, blank=True, on_delete=models.CASCADE, related_name="programs")
    level = models.PositiveSmallIntegerField(null=True, blank=True)
    path = models.CharField(max_length=300, blank=True)
    name = models.CharField(max_length=120)
    description = models.TextField(blank=True)
    tags = models.JSONField(default=list, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    synthetic = models.BooleanField(default=False)

    class Meta:
        ordering = ["-created_at", "-pk"]
        indexes = [models.Index(fields=["team", "-created_at"], name="program_by_team")]

    def __str__(self) -> str:
        return self.name


class AnalysisState(models.TextChoices):
    NONE = "none"
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class Revision(models.Model):
    """One text of a program. Immutable but for its analysis; `sha256` is the content address of text and entry."""

    program = models.ForeignKey(Program, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    text = models.TextField()
    entry = models.CharField(max_length=120, blank=True)
    sha256 = models.CharField(max_length=64, db_index=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    analysis_state = models.CharField(max_length=8, choices=AnalysisState.choices, default=AnalysisState.NONE)
    analysis = models.JSONField(null=True, blank=True)  # an Analysis without its graph
    analysis_error = models.TextField(blank=True)  # ours, not the program's: why there is no analysis

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["program", "number"], name="revision_numbers_once"),
            models.UniqueConstraint(fields=["program", "sha256"], name="revision_texts_once"),
        ]

    def __str__(self) -> str:
        return f"{self.program} r{self.number}"

    @property
    def source(self) -> Source:
        return Source(text=self.text, entry=self.entry)

    @property
    def report(self) -> Analysis | None:
        """The analysis as its contract, without the graph; None until there is one."""
        return Analysis.model_validate(self.analysis) if self.analysis else None
