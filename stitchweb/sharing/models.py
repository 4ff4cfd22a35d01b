"""Publication with its content and tags, Collection, Comment, ShareLink."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.hashers import check_password
from django.db import models
from django.urls import reverse
from django.utils import timezone

from gpu_runner.contracts import Interval, Label, Speed, TimingReport
from stitchweb.programs.models import Program, Revision
from stitchweb.runs.models import Run
from stitchweb.sharing import search
from stitchweb.teams.models import Team

LICENCES = [
    ("internal", "Internal: not to be passed on"),
    ("Apache-2.0", "Apache-2.0"),
    ("MIT", "MIT"),
    ("BSD-3-Clause", "BSD-3-Clause"),
    ("MPL-2.0", "MPL-2.0"),
    ("GPL-3.0-or-later", "GPL-3.0-or-later"),
    ("CC0-1.0", "CC0-1.0, public domain"),
]
PRECISIONS = (Label.FULL_PRECISION, Label.REORDERED, Label.REDUCED_PRECISION)
# Labels that may not be lost from sight wherever a publication is shown. The precisions beside them say how exact it is.
LOUD = tuple(str(label) for label in Label if label not in (Label.FULL_PRECISION, Label.REORDERED))


class PublicationQuerySet(models.QuerySet["Publication"]):
    def standing(self) -> PublicationQuerySet:
        """Those that were not withdrawn."""
        return self.filter(withdrawn_at=None)

    def search(self, text: str) -> PublicationQuerySet:
        """Those whose name, tags, notes or code hold all words of `text` (each as a beginning), best first.

        The same words find the same rows on SQLite and on PostgreSQL; the order of equally good ones may differ.
        """
        return search.search(self, text)

    def for_lists(self) -> PublicationQuerySet:
        return self.select_related("team", "author", "program").prefetch_related("tags")


class Publication(models.Model):
    """One version of a program that a team shows: a verified candidate, frozen with its numbers as they were then.

    Versions share `slug` in a team; exactly the newest one that stands has `newest`. Times are milliseconds, ratios are over
    eager, over the best torch.compile arm, and over `baseline`, each with its 95 % interval; none unless a speed was claimed.
    """

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="publications")
    program = models.ForeignKey(Program, on_delete=models.CASCADE, related_name="publications")
    revision = models.ForeignKey(Revision, on_delete=models.CASCADE, related_name="publications")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="publications")
    candidate = models.CharField(max_length=20)
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="children")
    sha256 = models.CharField(max_length=64)  # of the candidate's files
    reference = models.CharField(max_length=64, db_index=True)  # of the revision: what it was verified against

    name = models.CharField(max_length=120)
    slug = models.SlugField(max_length=120)
    version = models.PositiveIntegerField()
    newest = models.BooleanField(default=True)
    notes = models.TextField(blank=True)
    licence = models.CharField(max_length=20, choices=LICENCES, default="internal")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="publications")
    engineer = models.CharField(max_length=80, blank=True)

    target = models.CharField(max_length=20)
    protocol = models.CharField(max_length=40)
    device = models.CharField(max_length=160, blank=True)
    mode = models.CharField(max_length=20, blank=True)
    precision = models.CharField(max_length=20, blank=True)  # what the run allowed: as-reference, tf32, bf16
    exactness = models.CharField(max_length=20, blank=True)  # the label of PRECISIONS that the check gave
    labels = models.JSONField(default=list)
    own_kernels = models.BooleanField(default=True)
    degenerate = models.BooleanField(default=False)
    coverage = models.FloatField(null=True, blank=True)
    speed = models.CharField(max_length=20, default=str(Speed.NOT_CLAIMED))
    baseline = models.CharField(max_length=40, blank=True)
    confirmed = models.BooleanField(default=False)
    ratio = models.FloatField(null=True, blank=True)
    ratio_low = models.FloatField(null=True, blank=True)
    ratio_high = models.FloatField(null=True, blank=True)
    eager = models.FloatField(null=True, blank=True)
    eager_low = models.FloatField(null=True, blank=True)
    eager_high = models.FloatField(null=True, blank=True)
    compiled = models.FloatField(null=True, blank=True)
    compiled_low = models.FloatField(null=True, blank=True)
    compiled_high = models.FloatField(null=True, blank=True)
    synthetic = models.BooleanField(default=False)
    published_at = models.DateTimeField(default=timezone.now)
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    objects = PublicationQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(fields=["team", "slug", "version"], name="published_once"),
            models.UniqueConstraint(fields=["team", "slug"], condition=models.Q(newest=True), name="one_newest_version"),
            models.CheckConstraint(
                condition=models.Q(newest=False) | models.Q(withdrawn_at=None), name="newest_version_stands"
            ),
        ]
        indexes = [
            models.Index(fields=["team", "-id"], name="newest_by_team", condition=models.Q(newest=True)),
            models.Index(fields=["team", "reference", "target"], name="published_of"),
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"

    def get_absolute_url(self) -> str:
        return reverse("publication", args=[self.pk])

    @property
    def claimed(self) -> bool:
        """Whether a speed may be shown at all."""
        return self.speed != Speed.NOT_CLAIMED and self.eager is not None

    @property
    def faster(self) -> bool:
        return self.speed == Speed.FASTER

    @property
    def over_eager(self) -> Interval | None:
        return _interval(self.eager, self.eager_low, self.eager_high) if self.claimed else None

    @property
    def over_compile(self) -> Interval | None:
        return _interval(self.compiled, self.compiled_low, self.compiled_high) if self.claimed else None

    @property
    def over_baseline(self) -> Interval | None:
        """Over the fastest correct baseline, which may be eager itself."""
        return _interval(self.ratio, self.ratio_low, self.ratio_high) if self.claimed else None

    @property
    def headline(self) -> tuple[Interval | None, str]:
        """The one number that stands for it, and its baseline: the fastest correct one where there is that, else eager. None
        where no speed is claimed."""
        if over := self.over_baseline:
            return over, self.baseline or "eager"
        return self.over_eager, "eager"

    @property
    def loud_labels(self) -> list[str]:
        """The labels that a reader must see wherever the publication is named."""
        return [label for label in self.labels if label in LOUD]

    @property
    def ground(self) -> tuple[str, str, str, str, str]:
        """What must agree before two publications' numbers may stand in one ranking."""
        return (self.target, self.protocol, self.device, self.mode, self.precision)


def _interval(value: float | None, low: float | None, high: float | None) -> Interval | None:
    if value is None:
        return None
    return Interval(value=value, low=value if low is None else low, high=value if high is None else high)


class Content(models.Model):
    """What is large about a publication. `files`, `source`, `profile`: references of blobs of its run; `facts`: its reports."""

    publication = models.OneToOneField(Publication, on_delete=models.CASCADE, primary_key=True, related_name="content")
    files = models.JSONField()
    source = models.JSONField(null=True)
    profile = models.JSONField(null=True, blank=True)
    facts = models.JSONField()

    def __str__(self) -> str:
        return f"content of publication {self.publication_id}"

    @property
    def timing(self) -> TimingReport | None:
        told = self.facts.get("timing")
        return TimingReport.model_validate(told) if told else None

    @property
    def checked(self) -> dict[str, Any]:
        return self.facts.get("check") or {}


class PublicationTag(models.Model):
    publication = models.ForeignKey(Publication, on_delete=models.CASCADE, related_name="tags")
    word = models.CharField(max_length=40, db_index=True)

    class Meta:
        ordering = ["word"]
        constraints = [models.UniqueConstraint(fields=["publication", "word"], name="tagged_once")]

    def __str__(self) -> str:
        return self.word


class Origin(models.Model):
    """A run that began as a fork of a publication: what comes of it names that one as its parent."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="origin")
    publication = models.ForeignKey(Publication, on_delete=models.CASCADE, related_name="forks")

    def __str__(self) -> str:
        return f"run {self.run_id} of {self.publication_id}"


class Collection(models.Model):
    """Publications of a team under one heading. An entry holds one version; a newer one is not put in its place."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="collections")
    name = models.CharField(max_length=120)
    description = models.TextField(blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    publications = models.ManyToManyField(Publication, related_name="collections")

    class Meta:
        ordering = ["name", "pk"]
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="one_collection_of_a_name")]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("collection", args=[self.pk])


class Comment(models.Model):
    """What a person of the team said under a publication."""

    publication = models.ForeignKey(Publication, on_delete=models.CASCADE, related_name="comments")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    text = models.TextField()
    mentions = models.ManyToManyField(settings.AUTH_USER_MODEL, related_name="mentioned_in")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"comment {self.pk}"


class ShareLinkQuerySet(models.QuerySet["ShareLink"]):
    def open(self, now: datetime | None = None) -> ShareLinkQuerySet:
        """Those that show something at this moment."""
        now = now or timezone.now()
        ends = models.Q(expires_at=None) | models.Q(expires_at__gt=now)
        return self.filter(ends, revoked_at=None, publication__withdrawn_at=None)


class ShareLink(models.Model):
    """A page about one publication for whoever holds its token, of which only the digest is kept.

    `shows_*`: what the page holds. `label`: for the team, never shown by the link. `views`: opened pages, the team's included.
    """

    publication = models.ForeignKey(Publication, on_delete=models.CASCADE, related_name="links")
    token_sha256 = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=8)  # the token's first letters, by which the team tells links apart
    label = models.CharField(max_length=80, blank=True)
    shows_notes = models.BooleanField(default=False)
    shows_numbers = models.BooleanField(default=True)
    shows_code = models.BooleanField(default=False)
    shows_profile = models.BooleanField(default=False)
    password = models.CharField(max_length=160, blank=True)  # hashed
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    views = models.PositiveIntegerField(default=0)
    viewed_at = models.DateTimeField(null=True, blank=True)

    objects = ShareLinkQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"link {self.hint}…"

    @property
    def state(self) -> str:
        """open | revoked | expired | withdrawn."""
        if self.revoked_at:
            return "revoked"
        if self.publication.withdrawn_at:
            return "withdrawn"
        return "expired" if self.expires_at and self.expires_at <= timezone.now() else "open"

    def opens_with(self, password: str) -> bool:
        return check_password(password, self.password)

    @property
    def shown(self) -> list[str]:
        """What the link shows, in words."""
        return [name for name in ("notes", "numbers", "code", "profile") if getattr(self, f"shows_{name}")]


class WrongPassword(models.Model):
    """A password that did not open a link; counted so that none is found by trying. `who`: a keyed digest of an address."""

    link = models.ForeignKey(ShareLink, on_delete=models.CASCADE, related_name="wrong")
    who = models.CharField(max_length=64)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes = [models.Index(fields=["link", "at"], name="wrong_by_link")]

    def __str__(self) -> str:
        return f"wrong password of link {self.link_id}"
