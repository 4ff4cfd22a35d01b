"""Run, Event, Snapshot, Control, Job, Runner, JoinToken, Quota, Blob, Artifact and ImportedProfile."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import models
from django.utils import timezone

from agents.events import Event as EventContract
from agents.state import State, Status
from gpu_runner.broker import AGENTS_QUEUE
from stitchweb.core.fields import StoredName
from stitchweb.programs.models import Revision
from stitchweb.teams.models import Team

STATUSES = [(status.value, status.value.replace("_", " ")) for status in Status]
ENDED = tuple(status.value for status in Status if status.ended)
# Nothing happens by itself in these: a person has to say something.
RESTING = (Status.PAUSED.value, Status.AWAITING_APPROVAL.value)


class RunQuerySet(models.QuerySet["Run"]):
    def active(self) -> RunQuerySet:
        return self.exclude(status__in=ENDED)

    def with_waits(self) -> RunQuerySet:
        """With `waits`: whether a step of the run lies in a runner's queue, and none is done. `shown_status` says that then."""
        steps = Job.objects.filter(run=models.OuterRef("pk"), step__isnull=False)
        queued = steps.filter(state=JobState.QUEUED).exclude(queue=AGENTS_QUEUE)
        done = steps.filter(models.Q(state=JobState.CLAIMED) | models.Q(state=JobState.QUEUED, queue=AGENTS_QUEUE))
        return self.annotate(waits=models.Exists(queued) & ~models.Exists(done))

    def free(self, now: datetime) -> RunQuerySet:
        """Runs that nobody drives at this moment."""
        return self.filter(models.Q(lease_expires=None) | models.Q(lease_expires__lt=now))


class Run(models.Model):
    """One execution of the loop. The reducer's state lies in `RunState`; the columns here are for lists, and follow it.

    `last_seq` counts events and is raised under this row's lock only. `lease` names who drives the run now. `poked_at`: when
    an advance was last sent; the sweeper sends another when nothing came of it.
    """

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="runs")
    revision = models.ForeignKey(Revision, on_delete=models.CASCADE, related_name="runs")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="runs")
    name = models.CharField(max_length=120)
    target = models.CharField(max_length=20)
    engineer = models.CharField(max_length=80)
    protocol = models.CharField(max_length=40)
    status = models.CharField(max_length=20, choices=STATUSES, default=Status.QUEUED.value)
    step = models.PositiveIntegerField(default=0)
    last_seq = models.PositiveBigIntegerField(default=0)
    lease = models.CharField(max_length=32, blank=True)
    lease_expires = models.DateTimeField(null=True, blank=True)
    poked_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    # Summary for lists
    verdict = models.CharField(max_length=40, blank=True)
    speed = models.CharField(max_length=20, blank=True)
    speedup = models.FloatField(null=True, blank=True)  # of the best over eager, with its interval
    speedup_low = models.FloatField(null=True, blank=True)
    speedup_high = models.FloatField(null=True, blank=True)
    speedup_compile = models.FloatField(null=True, blank=True)  # over the best torch.compile arm
    best = models.CharField(max_length=20, blank=True)
    coverage = models.FloatField(null=True, blank=True)  # share of the best's time in its own kernels, 0 to 1
    candidates = models.PositiveIntegerField(default=0)
    device_s = models.FloatField(default=0.0)  # the hands were busy for it
    tokens = models.PositiveBigIntegerField(default=0)  # of models, in and out
    money = models.FloatField(default=0.0)
    stop_cause = models.CharField(max_length=40, blank=True)
    sentence = models.TextField(blank=True)
    synthetic = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    changed_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-pk"]
        indexes = [
            models.Index(fields=["team", "-created_at", "-id"], name="run_by_team"),
            # Covers the choice of the best run per program, target and protocol.
            models.Index(fields=["revision", "team", "target", "protocol", "-speedup"], name="run_best"),
            models.Index(fields=["team", "target", "protocol"], name="run_kinds"),
            models.Index(fields=["status"], name="run_active", condition=~models.Q(status__in=ENDED)),
        ]

    def __str__(self) -> str:
        return f"{self.name} #{self.pk}"

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def shown_status(self) -> str:
        """The status in lists: "waiting" while no runner has taken its step (known of rows from `with_waits`)."""
        busy = not self.ended and self.status not in (*RESTING, Status.QUEUED.value)
        return "waiting" if busy and getattr(self, "waits", False) else self.status

    @property
    def group(self) -> str:
        """The channel layer's group of those who watch."""
        return f"run.{self.pk}"

    def load(self) -> State:
        """The reducer's state, typed. One query. Raises pydantic's ValidationError when it is of another schema."""
        return State.model_validate(RunState.objects.values_list("state", flat=True).get(run=self))


class RunState(models.Model):
    """What is large about a run, kept apart so that lists read small rows: its state, and its result line once it has ended."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="stored")
    state = models.JSONField()
    result = models.JSONField(null=True, blank=True)

    def __str__(self) -> str:
        return f"state of run {self.run_id}"


class Event(models.Model):
    """One numbered fact of a run, never changed. The key is (run, seq), seq gap-free from 1. `at`: seconds since the epoch."""

    pk = models.CompositePrimaryKey("run_id", "seq")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events", db_index=False)
    seq = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=24)
    who = models.CharField(max_length=120, default="system")
    at = models.FloatField()
    payload = models.JSONField()

    class Meta:
        ordering = ["run_id", "seq"]

    def __str__(self) -> str:
        return f"{self.run_id}:{self.seq} {self.kind}"

    @property
    def contract(self) -> EventContract:
        return EventContract.model_construct(seq=self.seq, kind=self.kind, at=self.at, who=self.who, payload=self.payload)


class Snapshot(models.Model):
    """The fold of a run's events up to `seq`, so that opening a page folds only what came after. Can be thrown away."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="snapshot")
    seq = models.PositiveBigIntegerField()
    view = models.JSONField()

    def __str__(self) -> str:
        return f"run {self.run_id} up to {self.seq}"


class ControlState(models.TextChoices):
    REQUESTED = "requested"
    APPLIED = "applied"
    REFUSED = "refused"


class Control(models.Model):
    """What a person asked of a run, taken in by the orchestrator between steps."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="controls")
    kind = models.CharField(max_length=20)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    data = models.JSONField(default=dict)
    state = models.CharField(max_length=10, choices=ControlState.choices, default=ControlState.REQUESTED)
    created_at = models.DateTimeField(default=timezone.now)
    done_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["pk"]
        indexes = [models.Index(fields=["run"], name="control_open", condition=models.Q(state="requested"))]

    def __str__(self) -> str:
        return f"{self.kind} of run {self.run_id}"


class JobState(models.TextChoices):
    QUEUED = "queued"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Job(models.Model):
    """One task for a runner: a step of a run, a check of it made again (then `step` is None), the analysis of a revision, or a
    trial: a check of texts that belong to no run. In a round an engineer's step is one too, done by an agent worker.

    The row is the outbox.

    `claim` names the one delivery that may report; a lease that runs out makes the job free for another. `batches` counts the
    progress batches taken from that delivery, so that a repeated one is told apart. `error`: why the machine could not.
    """

    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.CASCADE, related_name="jobs")
    revision = models.ForeignKey(Revision, null=True, blank=True, on_delete=models.CASCADE, related_name="jobs")
    step = models.PositiveIntegerField(null=True, blank=True)
    within = models.PositiveIntegerField(null=True, blank=True)  # the engineer's step that it is done for, by index
    kind = models.CharField(max_length=10)
    queue = models.CharField(max_length=40)
    candidate = models.CharField(max_length=20, blank=True)
    lane = models.PositiveSmallIntegerField(null=True, blank=True)  # of a round, that the step is done in
    task = models.JSONField()
    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.QUEUED)
    claim = models.CharField(max_length=32, blank=True)
    claims = models.PositiveSmallIntegerField(default=0)
    batches = models.PositiveIntegerField(default=0)
    worker = models.CharField(max_length=120, blank=True)
    lease_expires = models.DateTimeField(null=True, blank=True)
    sends = models.PositiveIntegerField(default=0)
    sent_at = models.DateTimeField(null=True, blank=True)
    report = models.JSONField(null=True, blank=True)
    error = models.TextField(blank=True)
    seconds = models.FloatField(default=0.0)  # the runner was busy with it
    created_at = models.DateTimeField(default=timezone.now)
    claimed_at = models.DateTimeField(null=True, blank=True)
    done_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["run", "step"], name="one_job_per_step"),
            models.CheckConstraint(
                condition=models.Q(run__isnull=False, revision__isnull=True)
                | models.Q(run__isnull=True, step__isnull=True, revision__isnull=False),
                name="job_has_one_purpose",
            ),
            models.CheckConstraint(
                condition=models.Q(within__isnull=True) | models.Q(run__isnull=False, step__isnull=True),
                name="lent_within_a_run",
            ),
        ]
        indexes = [models.Index(fields=["queue"], name="job_open", condition=models.Q(state__in=["queued", "claimed"]))]

    def __str__(self) -> str:
        return f"job {self.pk}: {self.kind}"

    @property
    def open(self) -> bool:
        return self.state in (JobState.QUEUED, JobState.CLAIMED)

    @property
    def analyses(self) -> bool:
        """Whether it is the analysis of a revision. What else belongs to a revision is a trial: its report stays here."""
        return self.revision_id is not None and self.kind == "analyse"

    @property
    def thinks(self) -> bool:
        """Whether it is an engineer's step, done by an agent worker."""
        return self.queue == AGENTS_QUEUE

    @property
    def replays(self) -> bool:
        """Whether it is a check made again beside its run: nothing of the loop waits for it."""
        return self.run_id is not None and self.step is None and self.within is None

    @property
    def lent(self) -> bool:
        """Whether an engineer with tools waits for it, and not the loop."""
        return self.within is not None


class RunnerState(models.TextChoices):
    ACTIVE = "active"
    DRAINING = "draining"  # ends what it does and takes nothing new
    QUARANTINED = "quarantined"  # the same, for what went wrong on it


class Runner(models.Model):
    """A runner: one process on one device, under the name that its jobs have in `worker`. It may claim jobs of its queues.

    `secret_sha256`: the digest of what it proves itself with, to the site and to the broker, where its account is `account`
    (empty: it came with the site and uses the site's own). `starting`: it has said nothing yet, but was started at `heard_at`.
    `about`: its device, as `DeviceInfo`; `health`: why it cannot work, in its own words; `use`: how busy it is, 0 to 1 each.
    `failures`: jobs that failed on it since the last one that did not. One that never joined is forgotten a week after its last
    word.
    """

    name = models.CharField(max_length=120, primary_key=True)
    queues = models.JSONField(default=list)
    heard_at = models.DateTimeField()
    starting = models.BooleanField(default=False)
    secret_sha256 = models.CharField(max_length=64, blank=True)
    account = models.CharField(max_length=40, blank=True)
    state = models.CharField(max_length=12, choices=RunnerState.choices, default=RunnerState.ACTIVE)
    reason = models.TextField(blank=True)  # of a state other than active
    changed_by = models.CharField(max_length=120, blank=True)
    changed_at = models.DateTimeField(null=True, blank=True)
    failures = models.PositiveSmallIntegerField(default=0)
    last_error = models.TextField(blank=True)
    last_error_at = models.DateTimeField(null=True, blank=True)
    about = models.JSONField(default=dict)
    health = models.TextField(blank=True)
    use = models.JSONField(default=dict)
    joined_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class JoinToken(models.Model):
    """The right to join one runner to the site, once. Only the digest of the token is kept."""

    token_sha256 = models.CharField(max_length=64, unique=True)
    queues = models.JSONField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)
    runner = models.CharField(max_length=120, blank=True)  # who joined with it

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"token for {', '.join(self.queues)}"


class Quota(models.Model):
    """What a team may have under way, and spend in a calendar month (UTC). None: no bound. `device_s`: seconds of runners."""

    team = models.OneToOneField(Team, on_delete=models.CASCADE, primary_key=True, related_name="quota")
    runs = models.PositiveIntegerField(null=True, blank=True)  # under way at once
    device_s = models.FloatField(null=True, blank=True)
    tokens = models.PositiveBigIntegerField(null=True, blank=True)
    money = models.FloatField(null=True, blank=True)

    def __str__(self) -> str:
        return f"quota of {self.team_id}"


class Blob(models.Model):
    """Bytes by content. Small ones live in `data`, so that every host of a fleet sees them; large ones in the file storage.

    A person may read a blob through a run of theirs that uses it, never by knowing its address alone.
    """

    sha256 = models.CharField(max_length=64, primary_key=True)
    size = models.PositiveBigIntegerField()
    data = models.BinaryField(null=True)
    file = StoredName(max_length=200, blank=True)
    runs = models.ManyToManyField(Run, related_name="blobs")
    created_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.sha256[:12]


class Artifact(models.Model):
    """A file that a runner sent beside its report: a profiler's own format, a trace, a whole build log."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="artifacts")
    name = models.CharField(max_length=120)
    file = models.FileField(upload_to="artifacts/%Y/%m/")
    size = models.PositiveBigIntegerField()
    sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "name"], name="artifact_names_once")]

    def __str__(self) -> str:
        return self.name


class ImportedProfile(models.Model):
    """What was read of a profiler's reports that a person brought. The reports themselves are not kept.

    `summary`: `stitchweb.profile/1`; `key`: the digest of the reports and of what was read of them. It is its owner's alone,
    and goes with them.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="profiles")
    key = models.CharField(max_length=64)
    name = models.CharField(max_length=120)
    size = models.PositiveBigIntegerField()  # of the reports, in bytes
    tool = models.CharField(max_length=40, blank=True)
    sentence = models.CharField(max_length=300, blank=True)
    summary = models.JSONField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-pk"]
        constraints = [models.UniqueConstraint(fields=["owner", "key"], name="profile_imported_once")]

    def __str__(self) -> str:
        return self.name
