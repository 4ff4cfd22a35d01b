"""What follows a submitted label: revision, dispute, final label, discussion; the answers to gold items; the trail."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from stitchweb.review.models.base import HACK_LEVELS, Assignment, Item, Project, Review, Rubric
from stitchweb.runs.models import Job, Run


class Label(models.Model):
    """Levels and hack flag given with open eyes, with the reason. `levels`: by dimension, None for "cannot tell"."""

    levels = models.JSONField()
    hack_level = models.CharField(max_length=8, choices=[(word, word) for word in HACK_LEVELS])
    hack_types = models.JSONField(default=list)
    reason = models.TextField()
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        abstract = True


class Revised(Label):
    """What a reviewer would say after the reveal. One per review, which itself stays as it was submitted.

    `peers`: how many other labels were on the page when it was written.
    """

    review = models.OneToOneField(Review, on_delete=models.CASCADE, related_name="revised")
    peers = models.PositiveSmallIntegerField()

    def __str__(self) -> str:
        return f"revision of review {self.review_id}"


class Adjudicator(models.Model):
    """Somebody who settles disputes in one project, whoever they are elsewhere in the team."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="adjudicators")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    granted_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["project", "user"], name="adjudicator_once")]

    def __str__(self) -> str:
        return f"adjudicator {self.user_id} of {self.project_id}"


class Adjudication(Label):
    """A final label. Never changed: when it is outdated a newer one is added, and the newest of an item counts.

    `verdict`: the Verifier's word on the candidate at that moment, which no adjudicator sees before.
    """

    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="adjudications")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    rubric = models.ForeignKey(Rubric, on_delete=models.PROTECT, related_name="+")
    verdict = models.CharField(max_length=60, blank=True)
    superseded = models.BooleanField(default=False)  # a later rubric version changed what it was given under

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"final label {self.pk} of item {self.item_id}"


class Typed(models.Model):
    """What somebody had typed of a revision or a final label at one moment, before they sent it. Rows are only ever added; the
    newest of a person, item and `act` is what the form shows. None is kept once the label is.
    """

    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    act = models.CharField(max_length=6)  # revise | settle
    content = models.JSONField()
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["user", "item", "act", "-id"], name="typed_newest")]

    def __str__(self) -> str:
        return f"typed {self.pk}: {self.act} item {self.item_id}"


class Seen(models.Model):
    """Labels of others that were open to somebody: those of one item, or, without `item`, all that were in by `at`."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="seen")
    item = models.ForeignKey(Item, null=True, on_delete=models.CASCADE, related_name="seen")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["user", "item"], name="seen_once"),
            models.UniqueConstraint(fields=["user", "project"], condition=models.Q(item=None), name="seen_whole_once"),
        ]

    def __str__(self) -> str:
        return f"user {self.user_id} saw labels of project {self.project_id}"


class Gold(models.Model):
    """The answer to a gold item: `answers` by dimension with the levels that are right and why, right hack levels and why."""

    item = models.OneToOneField(Item, on_delete=models.CASCADE, related_name="answer")
    slug = models.CharField(max_length=60)
    answers = models.JSONField()
    hack_levels = models.JSONField()
    hack_why = models.TextField()

    def __str__(self) -> str:
        return f"answer to {self.slug}"


class Hunch(models.Model):
    """What a reviewer tried out: the candidate or the inputs changed, checked by the Verifier as `job`.

    `changed`: the texts by path that differ, "reference.py" among them; `attached`: the dimension that it is evidence for.
    `kept_as`: the run that holds the changed candidate, once it is kept as a better one.
    """

    assignment = models.ForeignKey(Assignment, on_delete=models.CASCADE, related_name="hunches")
    number = models.PositiveSmallIntegerField()
    job = models.OneToOneField(Job, null=True, on_delete=models.SET_NULL, related_name="+")
    changed = models.JSONField(default=dict)
    note = models.CharField(max_length=400, blank=True)
    attached = models.CharField(max_length=40, blank=True)
    kept_as = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="hunches")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["assignment", "number"], name="hunch_numbers_once")]

    def __str__(self) -> str:
        return f"hunch {self.number} of assignment {self.assignment_id}"

    @property
    def verdict(self) -> str:
        """The Verifier's word on it; empty while there is none. Not for eyes before the scores are in."""
        report = self.job.report if self.job else None
        return str((report or {}).get("verdict", ""))


class Probe(models.Model):
    """A reference with other inputs that told something about one candidate, kept to be tried on others of the same program.

    `reference_sha256`: of the text that it was made from; `text`: the changed one, whole. `number` counts within the project.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="probes")
    hunch = models.OneToOneField(Hunch, on_delete=models.CASCADE, related_name="probe")
    number = models.PositiveSmallIntegerField()
    reference_sha256 = models.CharField(max_length=64)
    text = models.TextField()
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["project", "number"], name="probe_numbers_once")]

    def __str__(self) -> str:
        return f"probe {self.number} of project {self.project_id}"


class Remark(models.Model):
    """A word in the discussion of an item, after the reveal. `number`: the reviewer who said it; None: an adjudicator."""

    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="remarks")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    number = models.PositiveSmallIntegerField(null=True)
    text = models.TextField()
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"remark {self.pk} on item {self.item_id}"


class Change(models.Model):
    """One thing that somebody did in a project: what stood before and what stood after. Rows are only ever added.

    `about`: what it was done to, in words without anybody's name; `old` and `new`: values by field.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="changes")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    act = models.CharField(max_length=20)
    about = models.CharField(max_length=120, blank=True)
    old = models.JSONField(default=dict)
    new = models.JSONField(default=dict)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["project", "-id"], name="changes_of_project")]

    def __str__(self) -> str:
        return f"{self.act} in {self.project_id}"
