"""A new run that begins with what was published."""

from __future__ import annotations

from django.db import transaction
from pydantic import ValidationError

from agents.state import Options
from stitchweb.programs.models import Revision
from stitchweb.programs.services import Upload, create_program
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.dress import text_of
from stitchweb.runs.models import Run
from stitchweb.runs.services import control, start_run
from stitchweb.sharing.access import publication_for
from stitchweb.sharing.models import Content, Origin, Publication
from stitchweb.sharing.permissions import FORK
from stitchweb.sharing.services.publishing import PublishRefused
from stitchweb.teams.access import require, team_for
from stitchweb.teams.models import Team, User


def fork(user: User, pk: int, team_slug: str = "") -> Run:
    """A run of the same reference, target and options whose first candidate is the published one; in the publication's team or
    another of the person's, which then gets a copy of the reference.

    PublishRefused, RunRefused or TooManyRuns with a sentence; Http404 and PermissionDenied without a member's role there.
    """
    row = publication_for(user, pk)
    if team_slug:
        team = team_for(user, team_slug, FORK)
    else:
        team = row.team
        require(user, team.pk, FORK)
    files = files_of(row)
    try:
        options = row.run.load().options
    except ValidationError as error:
        raise PublishRefused("This version cannot read the options of its run. Start one from the program's page.") from error
    with transaction.atomic():
        revision = row.revision
        if team.pk != row.team_id:
            options = offline(options)
            revision = _copy(user, row, team)
        run = start_run(user, revision, options, row.name)
        Origin.objects.create(run=run, publication=row)
        control(user, run, "candidate", {"files": files, "parent": None, "title": f"{row} as it was published"[:200]})
    return run


def files_of(row: Publication) -> dict[str, str]:
    """Path to text. PublishRefused when a file is gone."""
    blobs = RunBlobs(row.run_id)
    texts = {path: text_of(blobs, ref) for path, ref in Content.objects.get(publication=row).files.items()}
    if any(text is None for text in texts.values()):
        raise PublishRefused("A file of this publication is not stored here any more.")
    return {path: text for path, text in texts.items() if text is not None}


def offline(options: Options) -> Options:
    """The same without models, which belong to a team."""
    roles = dict.fromkeys(options.models, "offline")
    return options.model_copy(update={**roles, "models": {}, "prompts": {}})


def _copy(user: User, row: Publication, team: Team) -> Revision:
    revision, program = row.revision, row.revision.program
    upload = Upload(revision.text, f"{program.name}.py", revision.entry, program.name, program.description, tuple(program.tags))
    return create_program(user, team, upload)
