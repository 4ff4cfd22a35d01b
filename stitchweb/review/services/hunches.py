"""Trying out a hunch: the reviewer's change to the candidate or the inputs goes through the same check as any candidate."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction
from pydantic import ValidationError

from agents.steps import checking
from gpu_runner.contracts import CandidateFiles, CheckTask, Source
from stitchweb.programs.uploads import check_source
from stitchweb.review.blind import REFERENCE_FILE, mask_of, scored_files, stored_paths
from stitchweb.review.mask import HIDDEN
from stitchweb.review.models import Held, Hunch, Item
from stitchweb.review.services.audit import named, record
from stitchweb.review.services.queue import QueueRefused, locked
from stitchweb.runs import jobbook
from stitchweb.runs.history import view_of
from stitchweb.runs.models import JobState
from stitchweb.teams.models import User

MOST = 40  # of one item
OPEN = (JobState.QUEUED, JobState.CLAIMED)


@transaction.atomic
def try_out(user: User, assignment_pk: int, texts: Mapping[str, str], note: str = "") -> Hunch:
    """Have the Verifier check the candidate with these texts in place of its own. `texts`: by path, as the page showed them.

    QueueRefused when nothing could be checked, or another hunch of this person, on whichever item, is under way.
    """
    row = locked(user, assignment_pk)
    if row.state == Held.SKIPPED:
        raise QueueRefused("You skipped this item, so it went to others.")
    if row.state == Held.SUBMITTED:
        raise QueueRefused("This review is submitted: nothing could be attached to it any more.")
    if Hunch.objects.filter(assignment__user=user, job__state__in=OPEN).exists():
        raise QueueRefused("Your last hunch is being checked. Wait for it: the runner does one thing at a time.")
    so_far = Hunch.objects.filter(assignment=row).count()
    if so_far >= MOST:
        raise QueueRefused(f"{MOST} hunches on one item are enough.")
    changed = _changed(row.item, texts)
    made = Hunch.objects.create(
        assignment=row, number=so_far + 1, changed=changed, note=note.replace("\x00", "")[:400],
        job=jobbook.create_trial(row.item.run.revision, _task(row.item, changed)),
    )  # fmt: skip
    record(user, row.item.project_id, "hunch", named(row.item), new={"number": made.number, "changed": sorted(changed)})
    return made


def _changed(item: Item, texts: Mapping[str, str]) -> dict[str, str]:
    """The texts that differ from what is stored, as the page masks it."""
    files, mask = scored_files(item), mask_of(item, view_of(item.run_id))
    stored = {**files.get("candidate", {}), REFERENCE_FILE: files.get("reference", {}).get(REFERENCE_FILE, "")}
    changed = {}
    for path, text in texts.items():
        said = text.replace("\r\n", "\n").replace("\x00", "")
        if path not in stored or said.strip() == mask.code(stored[path]).strip():
            continue
        if HIDDEN in said:
            raise QueueRefused(f"{path} holds {HIDDEN} in place of a name. Write something else there, then try again.")
        changed[path] = said
    return changed


def changed_files(item: Item, changed: Mapping[str, str]) -> dict[str, str]:
    """The candidate's texts by their stored paths, with these in place of its own. `changed`: by the paths of the page."""
    texts = scored_files(item).get("candidate", {})
    return {path: changed.get(shown, texts[shown]) for shown, path in stored_paths(item).items()}


def _task(item: Item, changed: Mapping[str, str]) -> CheckTask:
    options = item.run.load().options
    reference = changed.get(REFERENCE_FILE, item.run.revision.text)
    problems = check_source(reference, REFERENCE_FILE, item.run.revision.entry)
    if problems:
        raise QueueRefused(f"{REFERENCE_FILE} cannot be a program: {problems[0].sentence}")
    try:
        candidate = CandidateFiles(files=changed_files(item, changed))
    except ValidationError as error:
        raise QueueRefused(f"This cannot be a candidate: {error.errors()[0]['msg']}.") from error
    source = Source(text=reference, entry=item.run.revision.entry)
    return checking(options, source, candidate, protocol=options.protocol)


@transaction.atomic
def attach(user: User, assignment_pk: int, number: int, dimension: str) -> None:
    """Make a hunch evidence for a dimension, or, with an empty one, evidence no more. QueueRefused after the submission."""
    row = locked(user, assignment_pk)
    if row.state == Held.SUBMITTED:
        raise QueueRefused("This review is submitted: its evidence stays as it is.")
    if dimension and dimension not in row.item.project.rubric.parsed.by_key:
        raise QueueRefused("The rubric has no such dimension.")
    if not Hunch.objects.filter(assignment=row, number=number).update(attached=dimension):
        raise QueueRefused("There is no such hunch.")
    record(user, row.item.project_id, "hunch", named(row.item), new={"number": number, "attached": dimension})
