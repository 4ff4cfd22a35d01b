"""What becomes of a hunch that told something: a better candidate is run, other inputs become a probe for other candidates."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Max

from gpu_runner.contracts import Verdict
from stitchweb.review.access import hunch_to_keep
from stitchweb.review.blind import REFERENCE_FILE
from stitchweb.review.models import Hunch, Probe, Project
from stitchweb.review.services.audit import named, record
from stitchweb.review.services.hunches import changed_files
from stitchweb.review.services.projects import ProjectRefused
from stitchweb.runs.models import Run
from stitchweb.runs.services import ControlRefused, run_again
from stitchweb.teams.models import User


def becomes(hunch: Hunch) -> str:
    """What could be kept of it: "candidate", "probe", or nothing."""
    if not hunch.job or hunch.job.open or not hunch.verdict:
        return ""
    if set(hunch.changed) == {REFERENCE_FILE}:
        return "probe"
    right = hunch.verdict == Verdict.VERIFIED and REFERENCE_FILE not in hunch.changed
    return "candidate" if hunch.changed and right else ""


def _locked(user: User, pk: int) -> Hunch:
    Hunch.objects.select_for_update().filter(pk=pk).first()
    return hunch_to_keep(user, pk)


@transaction.atomic
def keep_candidate(user: User, hunch_pk: int) -> Run:
    """Run the changed candidate as one of its program: it is built, checked, timed and profiled as any other, and may come into
    queues then, its author's left out. Kept once: sent twice, the first run is returned.

    As `access.hunch_to_keep` refuses; ProjectRefused for what the Verifier did not find right, and where no run can be started;
    PermissionDenied without a worker's role.
    """
    hunch = _locked(user, hunch_pk)
    if hunch.kept_as:
        return hunch.kept_as
    if becomes(hunch) != "candidate":
        raise ProjectRefused("Only a changed candidate that the Verifier found right, against the unchanged reference, is run.")
    item = hunch.assignment.item
    try:
        run = run_again(user, item.run, changed_files(item, hunch.changed), "Changed in a review")
    except ControlRefused as refusal:
        raise ProjectRefused(str(refusal)) from refusal
    hunch.kept_as = run
    hunch.save(update_fields=["kept_as"])
    record(user, item.project_id, "keep", named(item), new={"hunch": hunch.number, "candidate of run": run.pk})
    return run


@transaction.atomic
def keep_probe(user: User, hunch_pk: int) -> Probe:
    """Keep other inputs, to be tried on other candidates of the same reference. Kept once: sent twice, the first stands.

    As `access.hunch_to_keep` refuses; ProjectRefused for what changed anything else, or was not checked.
    """
    hunch = _locked(user, hunch_pk)
    found = Probe.objects.filter(hunch=hunch).first()
    if found:
        return found
    if becomes(hunch) != "probe":
        raise ProjectRefused("Only a reference with other inputs, checked with the candidate as it was, becomes a probe.")
    item = hunch.assignment.item
    project = Project.objects.select_for_update().get(pk=item.project_id)
    number = (Probe.objects.filter(project=project).aggregate(most=Max("number"))["most"] or 0) + 1
    probe = Probe.objects.create(
        project=project, hunch=hunch, number=number, reference_sha256=item.run.revision.sha256,
        text=hunch.changed[REFERENCE_FILE],
    )  # fmt: skip
    record(user, project, "keep", named(item), new={"hunch": hunch.number, "probe": number})
    return probe
