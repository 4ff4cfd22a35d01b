"""Which runs a person may see or steer, and which blobs they may read."""

from __future__ import annotations

from django.db.models import QuerySet
from django.http import Http404

from stitchweb.core.withheld import open_to, refuse_closed
from stitchweb.runs.models import Artifact, Blob, ImportedProfile, Run, RunQuerySet
from stitchweb.teams.access import EVERYBODY, WORKERS, Person, require_role, teams_for


def runs_for(user: Person, roles: frozenset[str] = EVERYBODY) -> RunQuerySet:
    """Runs of the person's teams, newest first, without those that are closed to them for now. One query."""
    return with_names(_open_runs(user, roles))


def _open_runs(user: Person, roles: frozenset[str] = EVERYBODY) -> RunQuerySet:
    return Run.objects.filter(open_to(user, "revision__program"), team__in=teams_for(user, roles))


def with_names(runs: RunQuerySet) -> RunQuerySet:
    """With what a list of runs names beside each."""
    return runs.select_related("team", "owner", "revision__program")


def run_for(user: Person, pk: int, roles: frozenset[str] = EVERYBODY) -> Run:
    """The run, or Http404; PermissionDenied with a sentence for those who see it but lack one of `roles`, or while it is closed
    to them."""
    run = runs_for(user).filter(pk=pk).first()
    if run is None:
        hidden = Run.objects.filter(pk=pk, team__in=teams_for(user)).values_list("revision__program", flat=True).first()
        if hidden is not None:
            refuse_closed(user, hidden)
        raise Http404("There is no such run, or it is not shared with you.")
    if roles is not EVERYBODY:
        require_role(user, run.team_id, roles)
    return run


def run_to_steer(user: Person, pk: int) -> Run:
    """The run, for those who may steer it."""
    return run_for(user, pk, WORKERS)


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
