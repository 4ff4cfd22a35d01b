"""Every write about programs: one text, or a batch of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from gpu_runner.contracts import Source
from stitchweb.programs.intake import Batch
from stitchweb.programs.models import Program, Revision, Suite
from stitchweb.programs.permissions import UPLOAD
from stitchweb.programs.uploads import Problem, check_source
from stitchweb.teams.access import require
from stitchweb.teams.models import Team, User

_HOUR = timedelta(hours=1)


class UploadRefused(Exception):
    """The text cannot become a program. `problems` are for the form, each with line, sentence and way out."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(problem.sentence for problem in problems))
        self.problems = problems


@dataclass(frozen=True)
class Upload:
    """One program as a person brings it. `filename` serves for sentences and, without `name`, for the name."""

    text: str
    filename: str = ""
    entry: str = ""
    name: str = ""
    description: str = ""
    tags: tuple[str, ...] = field(default=())

    @property
    def title(self) -> str:
        stem = self.filename.rsplit("/", 1)[-1].removesuffix(".py")
        return (self.name or stem or "Untitled program")[:120]


def create_program(user: User, team: Team, upload: Upload) -> Revision:
    """A program with its first revision. UploadRefused when the text cannot be one, PermissionDenied unless a member."""
    require(user, team.pk, UPLOAD)
    problems = check_source(upload.text, upload.filename, upload.entry)
    if problems:
        raise UploadRefused(problems)
    with transaction.atomic():  # not the parsing: it may take seconds
        _require_room(user, 1)
        return _create(user, team, upload)


@transaction.atomic
def add_revision(user: User, program: Program, text: str, entry: str = "") -> Revision:
    """The next revision of a program; the one there is, when text and entry are the same. Refuses as `create_program` does."""
    require(user, program.team_id, UPLOAD)
    problems = check_source(text, program.path or program.name, entry)
    if problems:
        raise UploadRefused(problems)
    Program.objects.select_for_update().get(pk=program.pk)  # two writers would take the same number
    sha256 = Source(text=text, entry=entry).sha256
    same = Revision.objects.filter(program=program, sha256=sha256).first()
    if same:
        return same
    _require_room(user, 1)
    last = Revision.objects.filter(program=program).order_by("-number").values_list("number", flat=True).first() or 0
    return Revision.objects.create(program=program, number=last + 1, text=text, entry=entry, sha256=sha256, created_by=user)


@transaction.atomic
def create_suite(user: User, team: Team, batch: Batch, name: str = "", description: str = "") -> Suite:
    """A suite of the batch's good programs. All or nothing: UploadRefused when none of them is good."""
    require(user, team.pk, UPLOAD)
    good = [item for item in batch.items if not item.problems]
    if not good:
        raise UploadRefused(batch.problems + [problem for item in batch.items for problem in item.problems])
    _require_room(user, len(good))
    suite = Suite.objects.create(
        team=team, name=(name or batch.name or "Untitled suite")[:120], description=description, created_by=user
    )
    for item in good:
        _create(user, team, Upload(text=item.text, filename=item.path), suite=suite, level=item.level)
    return suite


def _require_room(user: User, wanted: int) -> None:
    """UploadRefused, with the time from which it would be taken, when the person uploads more in an hour than one may.

    To the end of the transaction the person uploads nothing else: two at the same moment would both find room.
    """
    User.objects.select_for_update(of=("self",), no_key=True).get(pk=user.pk)
    most, now = settings.UPLOADS_PER_HOUR, timezone.now()
    if wanted > most:
        what = f"It holds {wanted} programs; one person may upload {most} in an hour."
        raise UploadRefused([Problem("too-many-uploads", what, "Upload it in parts.")])
    recent = Revision.objects.filter(created_by=user, created_at__gt=now - _HOUR).order_by("created_at")
    over = recent.count() + wanted - most
    if over <= 0:
        return
    free = recent.values_list("created_at", flat=True)[over - 1] + _HOUR
    minutes = max(1, math.ceil((free - now).total_seconds() / 60))
    raise UploadRefused(
        [
            Problem(
                "too-many-uploads",
                f"In the last hour you have uploaded {most + over - wanted} of the {most} programs that one person may upload.",
                f"Send it again in {minutes} minute{'' if minutes == 1 else 's'}, or ask whoever runs the site to raise"
                " UPLOADS_PER_HOUR.",
            )
        ]
    )


@transaction.atomic
def _create(user: User, team: Team, upload: Upload, suite: Suite | None = None, level: int | None = None) -> Revision:
    program = Program.objects.create(
        team=team,
        suite=suite,
        level=level,
        path=upload.filename[:300],
        name=upload.title,
        description=upload.description,
        tags=sorted({tag.strip().lower()[:40] for tag in upload.tags if tag.strip()})[:20],
        created_by=user,
    )
    source = Source(text=upload.text, entry=upload.entry)
    return Revision.objects.create(
        program=program, number=1, text=source.text, entry=source.entry, sha256=source.sha256, created_by=user
    )
