"""Keyring, Reference, Record, Release, Export, Judge, Score, ScoredRun and Shown."""

from __future__ import annotations

import secrets

from django.conf import settings
from django.db import models
from django.utils import timezone

from stitchweb.core.fields import StoredName
from stitchweb.programs.models import Revision
from stitchweb.runs.models import Run
from stitchweb.teams.models import Team

SPLITS = ("train", "validation", "test", "gold")  # from the least to the most held out
UNKNOWN_LICENCE = "LicenseRef-unknown"


def new_secret() -> str:
    return secrets.token_hex(32)


class Keyring(models.Model):
    """The key that a team's raters are pseudonymised with. In no export; another key breaks the link to earlier releases.

    `records_at`: when a record of the team last came or changed, so that what was read of them is known to be fresh.
    """

    team = models.OneToOneField(Team, on_delete=models.CASCADE, primary_key=True, related_name="rater_key")
    secret = models.CharField(max_length=64, default=new_secret)
    records_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"rater key of {self.team_id}"


class Reference(models.Model):
    """A reference text of a team and where it stands in the splits. `group`: of all that belong together with it, kept so that
    new data moves no old group. `pinned`: the split that a person chose for it; empty: that of its group."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="references")
    revision = models.ForeignKey(Revision, on_delete=models.CASCADE, related_name="+")
    sha256 = models.CharField(max_length=64)
    ast_sha256 = models.CharField(max_length=64)
    group = models.CharField(max_length=20)
    split = models.CharField(max_length=10, choices=[(s, s) for s in SPLITS])
    pinned = models.CharField(max_length=10, blank=True, choices=[(s, s) for s in SPLITS])
    license = models.CharField(max_length=60, default=UNKNOWN_LICENCE)

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["team", "sha256"], name="reference_once_per_team")]

    def __str__(self) -> str:
        return f"reference {self.sha256[:12]} of {self.team_id}"


class Record(models.Model):
    """One candidate as data: its texts by digest, what was asked, what was measured, and its reward with all that it was
    computed from. Made from the run's events; can be made again from them.

    `files`, `parent_files`: path to the digest of a blob. `norm_sha256`: as `agents.likeness.candidate_norm_sha256`.
    """

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="records")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="records")
    reference = models.ForeignKey(Reference, on_delete=models.CASCADE, related_name="records")
    candidate = models.CharField(max_length=20)
    parent = models.CharField(max_length=20, blank=True)
    number = models.PositiveIntegerField(default=0)  # its place in the run
    sha256 = models.CharField(max_length=64, db_index=True)
    norm_sha256 = models.CharField(max_length=64)
    skill = models.CharField(max_length=12)
    engineer = models.CharField(max_length=80)
    target = models.CharField(max_length=20)
    origin = models.CharField(max_length=10)  # run | elsewhere | synthetic
    verdict = models.CharField(max_length=40, blank=True)
    files = models.JSONField()
    parent_files = models.JSONField(default=dict)
    asked = models.JSONField(default=dict)  # task, points, bottleneck
    measured = models.JSONField(default=dict)  # numbers by name
    facts = models.JSONField(default=list)  # sentences
    inputs = models.JSONField(default=dict)  # agents.reward.Inputs
    preset = models.CharField(max_length=20, blank=True)
    parameters = models.JSONField(default=dict)  # agents.reward.Parameters
    reward = models.FloatField(null=True)
    ended_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["run", "candidate"], name="record_once")]
        indexes = [models.Index(fields=["team", "reference"], name="record_by_reference")]

    def __str__(self) -> str:
        return f"{self.candidate} of run {self.run_id}"


class WorkState(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Work(models.Model):
    """Something that the agent worker makes, with progress. `doing`: what it is at, of which `at` of `of` is done; `problem`: a
    sentence on why it failed; `heard_at`: its last word. The row is the outbox: what nobody took up can be sent again."""

    state = models.CharField(max_length=9, choices=WorkState.choices, default=WorkState.QUEUED)
    doing = models.CharField(max_length=120, blank=True)
    at = models.PositiveIntegerField(default=0)
    of = models.PositiveIntegerField(default=0)
    cancel = models.BooleanField(default=False)
    problem = models.TextField(blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    heard_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True

    @property
    def open(self) -> bool:
        return self.state in (WorkState.QUEUED, WorkState.RUNNING)


class Release(Work):
    """A frozen set of labels. `sha256`: of its content, not of its name or date; `file`: where the content lies; `counts`:
    rows per config and split; `changes`: what is other than in the team's release before."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="releases")
    name = models.SlugField(max_length=60)
    sha256 = models.CharField(max_length=64, blank=True)
    file = StoredName(max_length=200, blank=True)
    size = models.PositiveBigIntegerField(default=0)
    counts = models.JSONField(default=dict)
    facts = models.JSONField(default=dict)  # for the card and the page
    changes = models.JSONField(default=list)
    before = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["-pk"]
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="release_names_once")]

    def __str__(self) -> str:
        return self.name


class Export(Work):
    """A release as files in a zip: all configs, their card, checksums. `format`: jsonl | parquet."""

    release = models.ForeignKey(Release, on_delete=models.CASCADE, related_name="exports")
    format = models.CharField(max_length=7)
    file = StoredName(max_length=200, blank=True)
    size = models.PositiveBigIntegerField(default=0)
    sha256 = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ["-pk"]
        constraints = [models.UniqueConstraint(fields=["release", "format"], name="export_once_per_format")]

    def __str__(self) -> str:
        return f"{self.release} as {self.format}"


class Judge(Work):
    """One version of a judge of a team; never changed once made. `kind`: local | model. `recipe`: what it was made of (release
    of labels, settings, prompt digest, rubric); `file`: a trained one's weights, or a model's rubric and examples, as data, no
    code; `figures`: its calibration; `gate`: score | rank | nothing, with reasons; `chosen_at`: when it became the team's."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="judges")
    kind = models.CharField(max_length=6)
    version = models.PositiveIntegerField()
    recipe = models.JSONField(default=dict)
    file = StoredName(max_length=200, blank=True)
    sha256 = models.CharField(max_length=64, blank=True)
    figures = models.JSONField(default=dict)
    gate = models.CharField(max_length=7, default="nothing")
    reasons = models.JSONField(default=list)
    active = models.BooleanField(default=False)  # its scores are the team's
    chosen_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(fields=["team", "kind", "version"], name="judge_versions_once"),
            models.UniqueConstraint(fields=["team"], condition=models.Q(active=True), name="one_active_judge"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} judge {self.version}"


class ScoreQuerySet(models.QuerySet["Score"]):
    def given(self) -> ScoreQuerySet:
        """Those that are one: where the judge broke there is none."""
        return self.filter(broken="")


class Score(models.Model):
    """What one judge said of one content. Rows are only added, but for those of a judge that broke (`broken` says how, there is
    no judgement then): choosing the judge again has it asked anew."""

    judge = models.ForeignKey(Judge, on_delete=models.CASCADE, related_name="scores")
    sha256 = models.CharField(max_length=64)
    judgement = models.JSONField(null=True)  # agents.judges.Judgement
    broken = models.CharField(max_length=400, blank=True)
    apart = models.PositiveSmallIntegerField(default=0)
    held_out = models.BooleanField(default=False)  # no label of its group was seen in training
    at = models.DateTimeField(default=timezone.now)

    objects = ScoreQuerySet.as_manager()

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["judge", "sha256"], name="score_once_per_content"),
            models.CheckConstraint(
                condition=models.Q(judgement__isnull=True) ^ models.Q(broken=""), name="score_or_why_there_is_none"
            ),
        ]

    def __str__(self) -> str:
        return f"score of {self.sha256[:12]} by {self.judge_id}"


class ScoredRun(models.Model):
    """An ended run whose candidates a judge has scored, or is to score. The row is the outbox: one that is not done is
    sent again after a while."""

    judge = models.ForeignKey(Judge, on_delete=models.CASCADE, related_name="+")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="+")
    done = models.BooleanField(default=False)
    sent_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["judge", "run"], name="scored_once_per_judge")]
        indexes = [models.Index(fields=["sent_at"], name="scored_open", condition=models.Q(done=False))]

    def __str__(self) -> str:
        return f"run {self.run_id} for {self.judge_id}"


class Shown(models.Model):
    """A person has read a judge's scores of a content before they labelled it: a label of theirs is not blind."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    sha256 = models.CharField(max_length=64)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["user", "sha256"], name="shown_once")]

    def __str__(self) -> str:
        return f"{self.sha256[:12]} shown to {self.user_id}"
