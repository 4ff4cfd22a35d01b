"""Hunches as a page shows them: what was changed, and the Verifier's readings of it. No verdict before the scores."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts import CheckReport
from stitchweb.review.blind import Observation, mask_of, observations
from stitchweb.review.mask import Mask
from stitchweb.review.models import Assignment, Hunch, Item, Probe
from stitchweb.review.services.findings import becomes
from stitchweb.review.services.projects import hidden_words
from stitchweb.runs import jobbook, runners
from stitchweb.runs.history import view_of
from stitchweb.runs.models import JobState

MOST_LOG = 3000


@dataclass(frozen=True)
class ShownHunch:
    """`waiting`: why there are no readings yet; `failed`: why there will be none; `verdict` only where it may be told."""

    hunch: Hunch
    open: bool
    waiting: str
    failed: str
    groups: list[tuple[str, list[Observation]]]
    log: str
    verdict: str
    who: str = ""
    becomes: str = ""  # "candidate" or "probe" where it could be kept as one, and the verdict may be told
    probe: Probe | None = None


def hunches_of(row: Assignment, *, tell: bool) -> list[ShownHunch]:
    """One's own, newest first. `tell`: whether verdicts may be seen. Queries for the view, the jobs and the runners."""
    mask = mask_of(row.item, view_of(row.item.run_id))
    some = Hunch.objects.filter(assignment=row).select_related("job", "probe").order_by("-pk")
    return [_shown(hunch, mask, tell) for hunch in some]


def attached_to(item: Item, *, tell: bool) -> list[ShownHunch]:
    """Everybody's that are evidence for a submitted label, for those who may read the labels. `tell`: their verdicts too."""
    some = Hunch.objects.filter(assignment__item=item, assignment__review__isnull=False).exclude(attached="")
    mask = Mask([], () if tell else hidden_words())
    return [
        _shown(hunch, mask, tell, f"reviewer {hunch.assignment.review.number}")
        for hunch in some.select_related("job", "probe", "assignment__review")
    ]


def _shown(hunch: Hunch, mask: Mask, tell: bool, who: str = "") -> ShownHunch:
    job = hunch.job
    report = CheckReport.model_validate(job.report) if job and job.report and job.report.get("kind") == "check" else None
    waits = job is not None and job.open
    waiting = ""
    if job is not None and waits:
        waiting = "A runner is at it." if job.state == JobState.CLAIMED else jobbook.why_waiting(job, runners.there())
    failed = ""
    if report is None and not waits:
        failed = mask.prose((job.error if job else "") or "The Verifier's answer is not stored any more.")[:MOST_LOG]
    rows = report.rows if report else ()
    return ShownHunch(
        hunch=hunch,
        open=waits,
        waiting=waiting,
        failed=failed,
        groups=observations(rows, mask),
        log=mask.prose(report.log[-MOST_LOG:]) if report and not rows else "",
        verdict=hunch.verdict if tell else "",
        who=who,
        becomes=becomes(hunch) if tell else "",
        probe=getattr(hunch, "probe", None),
    )
