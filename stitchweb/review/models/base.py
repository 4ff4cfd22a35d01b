"""Rubric, Project, Reviewer, Item, Assignment, Draft, Review, Rating and Mark."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import models
from django.utils import timezone

from gpu_runner.contracts import HackClass
from stitchweb.review.rubric import RubricContent
from stitchweb.runs.models import Run
from stitchweb.teams.models import Team

HACK_LEVELS = ("none", "shortcut", "minor", "major", "unsure")
HACK_TYPES = tuple(map(str, HackClass))
RANDOM_SHARE = 20  # per cent of a queue that no judge moves, unless its project says another


class Rubric(models.Model):
    """One version of a rubric. Never changed once a project uses it: `services.rubrics` is the only writer."""

    key = models.CharField(max_length=40)
    version = models.PositiveIntegerField()
    title = models.CharField(max_length=120)
    content = models.JSONField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["key", "-version"]
        constraints = [models.UniqueConstraint(fields=["key", "version"], name="rubric_versions_once")]

    def __str__(self) -> str:
        return f"{self.key}/{self.version}"

    @property
    def parsed(self) -> RubricContent:
        return RubricContent.model_validate(self.content)


class ProjectState(models.TextChoices):
    OPEN = "open"
    PAUSED = "paused"
    CLOSED = "closed"


class Project(models.Model):
    """A set of candidates that some people score under one rubric version.

    `overlap`: how many labels an item gets; `coverage`: for how many per cent of the items, the others get one. `random_share`:
    per cent of the items that a judge does not move in the queue. `filters`: what the items were chosen by, for those alone who
    manage it: reviewers would read a verdict out of it.
    """

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="review_projects")
    rubric = models.ForeignKey(Rubric, on_delete=models.PROTECT, related_name="projects")
    name = models.CharField(max_length=120)
    guidelines = models.TextField(blank=True)  # Markdown
    overlap = models.PositiveSmallIntegerField(default=2)
    coverage = models.PositiveSmallIntegerField(default=100)
    random_share = models.PositiveSmallIntegerField(default=RANDOM_SHARE)
    reservation_minutes = models.PositiveSmallIntegerField(default=60)
    pass_mark = models.PositiveSmallIntegerField(default=0)  # per cent of the gold items' points; 0: nobody is tested
    keep_days = models.PositiveIntegerField(null=True, blank=True)  # after closing; None: for good
    closed_at = models.DateTimeField(null=True, blank=True)
    filters = models.JSONField(default=dict)
    state = models.CharField(max_length=6, choices=ProjectState.choices, default=ProjectState.OPEN)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    synthetic = models.BooleanField(default=False)

    class Meta:
        ordering = ["-created_at", "-pk"]
        constraints = [
            models.CheckConstraint(condition=models.Q(overlap__gte=1, overlap__lte=9), name="overlap_1_to_9"),
            models.CheckConstraint(condition=models.Q(coverage__gte=0, coverage__lte=100), name="coverage_is_per_cent"),
            models.CheckConstraint(
                condition=models.Q(random_share__gte=0, random_share__lte=100), name="random_share_is_per_cent"
            ),
            models.CheckConstraint(condition=models.Q(pass_mark__gte=0, pass_mark__lte=100), name="pass_mark_is_per_cent"),
        ]

    def __str__(self) -> str:
        return self.name


class Reviewer(models.Model):
    """Somebody who scores in a project. `number` is the pseudonym under which peers see them: "reviewer 3".

    `cleared`: a manager lets them go on although their gold items are below the pass mark. `back_at`: when they last came back
    after having left: what was in the queue by then had been open to them.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="reviewers")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    number = models.PositiveSmallIntegerField()
    joined_at = models.DateTimeField(default=timezone.now)
    left_at = models.DateTimeField(null=True, blank=True)  # their labels stay
    back_at = models.DateTimeField(null=True, blank=True)
    cleared = models.BooleanField(default=False)

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["project", "user"], name="reviewer_once"),
            models.UniqueConstraint(fields=["project", "number"], name="reviewer_numbers_once"),
        ]

    def __str__(self) -> str:
        return f"reviewer {self.number} of {self.project_id}"


class ItemQuerySet(models.QuerySet["Item"]):
    def with_room(self) -> ItemQuerySet:
        """Items that lack a label nobody has reserved."""
        return self.filter(taken__lt=models.F("wanted"))


class Placed(models.TextChoices):
    """Why an item stands where it does in its queue, in words that a reviewer may read: they tell nothing of a score."""

    CHANCE = "", "in its turn"
    DRAWN = "drawn", "drawn at random, whatever a judge makes of it"
    LABELS = "labels", "a judge and the labels it has lie apart"
    ANSWERS = "answers", "a judge's own answers lie apart"
    UNSURE = "unsure", "a judge is unsure of it"
    SURE = "sure", "a judge is surer of it than of others"


BY_CHANCE = (Placed.CHANCE, Placed.DRAWN)


class Item(models.Model):
    """One candidate in a project's queue. `sha256` pins what is scored; `rank` is its place in the queue, random at first;
    `placed`: what put it there since; `parent`: the candidate of the same run whose feedback it answers.

    `taken`: slots in use, reserved or submitted; raised and lowered under this row's lock only. `why`: why it is here, in words
    that a reviewer may read before scoring. `opened`: all its labels were in once, so what is hidden of it was open to people
    who had given none.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="items")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="review_items")
    candidate = models.CharField(max_length=20)
    sha256 = models.CharField(max_length=64)
    skill = models.CharField(max_length=12)
    parent = models.CharField(max_length=20, blank=True)
    why = models.CharField(max_length=200)
    placed = models.CharField(max_length=7, blank=True, choices=Placed.choices, default=Placed.CHANCE)
    gold = models.BooleanField(default=False)  # scored by every reviewer, before anything else
    rank = models.FloatField()
    wanted = models.PositiveSmallIntegerField()
    taken = models.PositiveSmallIntegerField(default=0)
    opened = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)

    objects = ItemQuerySet.as_manager()

    class Meta:
        ordering = ["-gold", "rank"]
        constraints = [
            models.UniqueConstraint(fields=["project", "sha256"], name="item_once_per_content"),
            models.CheckConstraint(condition=models.Q(taken__lte=models.F("wanted")), name="item_never_overfull"),
        ]
        indexes = [
            models.Index(
                fields=["project", "-gold", "rank"], name="item_with_room", condition=models.Q(taken__lt=models.F("wanted"))
            ),
            models.Index(fields=["project", "-gold", "rank"], name="item_in_order"),
        ]

    def __str__(self) -> str:
        return f"{self.candidate} of run {self.run_id}"


class Held(models.TextChoices):
    RESERVED = "reserved"
    SUBMITTED = "submitted"
    SKIPPED = "skipped"
    EXPIRED = "expired"


class AssignmentQuerySet(models.QuerySet["Assignment"]):
    def overdue(self, now: datetime) -> AssignmentQuerySet:
        return self.filter(state=Held.RESERVED, expires_at__lte=now)

    def back(self) -> AssignmentQuerySet:
        """Those that ran out and still have room: nobody else is needed for what their person may go on with."""
        return self.filter(state=Held.EXPIRED, item__taken__lt=models.F("item__wanted"))


class Assignment(models.Model):
    """One person and one item, once and for all: nobody is shown an item a second time.

    `slot` numbers the label it holds, 0 to `wanted` - 1, None when it holds none: two people cannot have the same one, whatever
    the code does. `draft`: the newest draft that was not undone. `active_s`: seconds at work, as the page counted them.
    """

    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="assignments")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    state = models.CharField(max_length=9, choices=Held.choices, default=Held.RESERVED)
    slot = models.PositiveSmallIntegerField(null=True)
    reserved_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    skip_reason = models.CharField(max_length=20, blank=True)
    skip_note = models.CharField(max_length=400, blank=True)
    draft = models.ForeignKey("Draft", null=True, on_delete=models.SET_NULL, related_name="+")
    active_s = models.FloatField(default=0.0)
    seen_at = models.DateTimeField(default=timezone.now)  # the page's last word: active time cannot grow faster than the clock

    objects = AssignmentQuerySet.as_manager()

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["item", "user"], name="item_once_per_person"),
            models.UniqueConstraint(fields=["item", "slot"], name="slot_once_per_item"),
            models.CheckConstraint(
                condition=models.Q(state__in=["reserved", "submitted"], slot__isnull=False)
                | models.Q(state__in=["skipped", "expired"], slot__isnull=True),
                name="who_holds_has_a_slot",
            ),
        ]
        indexes = [models.Index(fields=["expires_at"], name="reservation_open", condition=models.Q(state="reserved"))]

    def __str__(self) -> str:
        return f"assignment {self.pk}: {self.state}"


class Draft(models.Model):
    """What a person had put down at one moment. Append-only; `before` is where undo leads."""

    assignment = models.ForeignKey(Assignment, on_delete=models.CASCADE, related_name="drafts")
    before = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+")
    content = models.JSONField()
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"draft {self.pk}"


class Review(models.Model):
    """A submitted judgement of one item, never changed. `blind`: nothing of judge, peers or verdict had been shown before it.

    `number`: the reviewer's pseudonym, which stays when `user` is forgotten. `verdict`: the Verifier's word at that moment,
    kept to see later whether it still stands.
    """

    assignment = models.OneToOneField(Assignment, on_delete=models.CASCADE, related_name="review")
    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="reviews")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    number = models.PositiveSmallIntegerField()
    rubric = models.ForeignKey(Rubric, on_delete=models.PROTECT, related_name="reviews")
    hack_level = models.CharField(max_length=8, choices=[(word, word) for word in HACK_LEVELS])
    hack_types = models.JSONField(default=list)
    comment = models.TextField(blank=True)
    blind = models.BooleanField(default=True)
    verdict = models.CharField(max_length=60, blank=True)
    superseded = models.BooleanField(default=False)  # a later rubric version changed what it was given under
    active_s = models.FloatField()
    submitted_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["pk"]
        indexes = [models.Index(fields=["item"], name="review_by_item")]

    def __str__(self) -> str:
        return f"review {self.pk}"


class Rating(models.Model):
    """One dimension of a review. `level` None: "cannot tell", which is never counted as a middle score."""

    review = models.ForeignKey(Review, on_delete=models.CASCADE, related_name="ratings")
    dimension = models.CharField(max_length=40)
    level = models.PositiveSmallIntegerField(null=True)
    sure = models.PositiveSmallIntegerField(null=True)  # 1 low, 2 medium, 3 high
    reason = models.TextField(blank=True)
    checks = models.JSONField(default=list)  # keys of the ticked checklist items

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["review", "dimension"], name="dimension_once_per_review"),
            models.CheckConstraint(
                condition=models.Q(level__isnull=True) | models.Q(level__gte=1, level__lte=5), name="level_1_to_5"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.dimension}: {self.level}"


class Mark(models.Model):
    """Lines of code that a rating rests on. `side`: whose file it is; `text_sha256`: of those lines as they stood."""

    review = models.ForeignKey(Review, on_delete=models.CASCADE, related_name="marks")
    dimension = models.CharField(max_length=40)
    side = models.CharField(max_length=9)  # candidate | parent | reference
    file = models.CharField(max_length=200)
    first = models.PositiveIntegerField()
    last = models.PositiveIntegerField()
    text_sha256 = models.CharField(max_length=64)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"{self.file}:{self.first}-{self.last}"
