"""Which runs a person may see or steer, and which blobs they may read."""

from __future__ import annotations

from django.db.models import QuerySet
from django.http import Http404

from stitchweb.core.permissions import Action
from stitchweb.core.withheld import open_to, refuse_closed
from stitchweb.runs.models import Artifact, Blob, ImportedProfile, Run, RunQuerySet
from stitchweb.runs.permissions import SEE, SEE_ALL_QUESTIONS, SEE_QUESTIONS, STEER
from stitchweb.teams.access import Person, require, role_of, teams_for


def runs_for(user: Person, action: Action = SEE) -> RunQuerySet:
    """Runs of the person's teams, newest first, without those that are closed to them for now. One query."""
    return with_names(_open_runs(user, action))


def _open_runs(user: Person, action: Action = SEE) -> RunQuerySet:
    return Run.objects.filter(open_to(user, "revision__program"), team__in=teams_for(user, action))


def with_names(runs: RunQuerySet) -> RunQuerySet:
    """With what a list of runs names beside each."""
    return runs.select_related("team", "owner", "revision__program")


def run_for(user: Person, pk: int, action: Action = SEE) -> Run:
    """The run, or Http404; PermissionDenied with a sentence for those who see it but may not do `action`, or while it is
    closed to them."""
    run = runs_for(user).filter(pk=pk).first()
    if run is None:
        hidden = Run.objects.filter(pk=pk, team__in=teams_for(user, SEE)).values_list("revision__program", flat=True).first()
        if hidden is not None:
            refuse_closed(user, hidden)
        raise Http404("There is no such run, or it is not shared with you.")
    if action is not SEE:
        require(user, run.team_id, action)
    return run


def run_to_steer(user: Person, pk: int) -> Run:
    """The run, for those who may steer it."""
    return run_for(user, pk, STEER)


def may_read_questions(user: Person, run: Run) -> bool:
    """Whether the person may read what the run's models were asked and answered: its owner and the team's managers."""
    role = role_of(user, run.team_id)
    return role in SEE_ALL_QUESTIONS.roles or (role in SEE_QUESTIONS.roles and run.owner_id == user.pk)


def may_watch(user: Person, pk: int) -> bool:
    """Whether the person may see the run at this moment. One query; asked again and again by open sockets."""
    return _open_runs(user).filter(pk=pk).exists()


def blob_for(user: Person, run_pk: int, sha256: str) -> Blob:
    """A blob that this run uses. Http404 for any other, also when it exists."""
    blob = Blob.objects.filter(sha256=sha256, runs__in=_open_runs(user).filter(pk=run_pk)).first()
    if blob is None:
        raise Http404("This run has no such file.")
    return blob


def artifacts_for(user: Person, run_pk: int) -> QuerySet[Artifact]:
    """What the runners stored beside their reports of this run."""
    return Artifact.objects.filter(job__run__in=_open_runs(user).filter(pk=run_pk)).select_related("job")


def profiles_for(user: Person) -> QuerySet[ImportedProfile]:
    """The profiles that the person imported, newest first, without their summaries. Nobody sees another's."""
    return ImportedProfile.objects.filter(owner=user.pk).defer("summary")


def profile_for(user: Person, pk: int) -> ImportedProfile:
    """One of them with its summary, or Http404."""
    found = ImportedProfile.objects.filter(owner=user.pk, pk=pk).first()
    if found is None:
        raise Http404("There is no such profile, or it is somebody else's.")
    return found
