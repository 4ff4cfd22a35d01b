"""What a reviewer may see of a candidate before scoring it, and nothing else.

Every field is picked by name out of the run: what is not named here does not reach the page. Never picked are the verdict, its
sentence and labels, the kind of hack and the suspicions, the word about speed, the candidate's title and notes, who owns the
run, which engineer or model wrote, and any judgement. Where a picked text quotes one of them it is masked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.safestring import SafeString

from agents.events import CandidateView, View
from gpu_runner.contracts import BlobRef, CheckRow, Interval, TimingReport
from stitchweb.review.content import Files
from stitchweb.review.mask import ANYWHERE, Mask
from stitchweb.review.models import Item
from stitchweb.review.services.projects import hidden_words
from stitchweb.runs import charts, dress
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.history import view_of
from stitchweb.runs.panels import GROUPS, report_of
from stitchweb.runs.pictures import KernelTable
from stitchweb.runs.rail import decision_of
from stitchweb.runs.spread import Shown, spread

REFERENCE_FILE = "reference.py"
Address = Callable[..., str]


@dataclass(frozen=True)
class Observation:
    """A row of the check matrix as seen: reading and limit, not what it was taken for. `ran` False: `value` says why not."""

    name: str
    value: str
    limit: str
    ran: bool


@dataclass(frozen=True)
class Ratio:
    """The candidate over one arm. `mark` draws the interval on the axis that all of them share."""

    over: str
    interval: Interval
    mark: SafeString


@dataclass(frozen=True)
class Timing:
    rows: list[charts.TimingTrack]
    head: SafeString
    scale: SafeString
    unit: str
    ratios: list[Ratio]
    ratio_scale: SafeString
    protocol: str
    noise: float | None
    floor_share: float | None


@dataclass(frozen=True)
class Request:
    """What the Coder was asked for. `points`: the feedback on the parent, or the constraints of the plan's item."""

    title: str
    why: str
    points: tuple[str, ...]


@dataclass(frozen=True)
class Profile:
    pictures: list[Shown]
    table: KernelTable
    estimated: bool


@dataclass(frozen=True)
class Subject:
    """One candidate, blind. `files`: texts by side and path, the candidate's own files first."""

    program: str
    skill: str
    target: str
    device: str
    precision: str
    checks: list[tuple[str, list[Observation]]]
    error_ratio: float | None
    signal_error: float | None
    timing: Timing | None
    coverage: float | None
    profile: Profile | None
    operators: list[tuple[str, float | None]]
    request: Request | None
    files: Files

    @property
    def observed(self) -> int:
        return sum(o.ran for _, rows in self.checks for o in rows)

    @property
    def has_parent(self) -> bool:
        return bool(self.files["parent"])


def mask_of(item: Item, view: View) -> Mask:
    """Hides who owns the run and what wrote in it, in whatever spelling; in prose the words that tell a verdict as well."""
    owner = item.run.owner
    people = [c.by for c in view.controls.values()]
    if owner:
        people += [owner.name, owner.email, owner.email.partition("@")[0]]
    parts = [part for name in people for part in re.split(r"[\s@]+", name) if "." not in part]
    engineers = list(view.header.engineers.values()) if view.header else []
    pieces = [piece for name in engineers for piece in (name, *re.split(r"[:/]", name))]
    long = [part for part in parts if len(part) >= ANYWHERE]
    return Mask([*people, *long, *pieces], hidden_words(), as_written=parts)


def subject_of(
    item: Item, address: Address, wishes: Mapping[str, str] | None = None, *, profile: bool = True
) -> Subject | None:
    """The candidate behind an item; None when its run has no such candidate any more.

    `address(anchor, **wishes)`: the review page with other choices for the profile's pictures; `profile` False: without them.
    Two or three queries, and one per file and profile.
    """
    view = view_of(item.run_id)
    candidate = view.candidates.get(item.candidate)
    if candidate is None or view.header is None:
        return None
    blobs, mask = RunBlobs(item.run_id), mask_of(item, view)
    report = report_of(candidate)
    check = candidate.check or {}
    profiled = view.profiles.get(candidate.id)
    coverage = check.get("coverage")
    return Subject(
        program=mask.code(item.run.revision.program.name),
        skill=candidate.skill,
        target=view.header.target,
        device=_device(report, view),
        precision=view.header.precision,
        checks=observations(candidate.rows, mask),
        error_ratio=check.get("error_ratio"),
        signal_error=check.get("signal_error"),
        timing=_timing(report) if report and report.arms else None,
        coverage=coverage if coverage is not None or profiled is None else profiled.coverage,
        profile=_profile(mask.tree(dress.report_of(blobs, profiled)), address, wishes or {}) if profile else None,
        operators=[(str(op.get("op")), op.get("share")) for op in view.analysis.ops] if view.analysis else [],
        request=_request(view, candidate, mask),
        files=_files(view, candidate, blobs, mask, mask),
    )


def scored_files(item: Item) -> Files:
    """The same texts as they are stored, nothing masked but their paths, for what is kept of a review; empty when the candidate
    is gone."""
    view = view_of(item.run_id)
    candidate = view.candidates.get(item.candidate)
    return _files(view, candidate, RunBlobs(item.run_id), Mask([]), mask_of(item, view)) if candidate else {}


def stored_paths(item: Item) -> dict[str, str]:
    """The paths of the candidate's files as they are stored, by the paths that a page shows."""
    view = view_of(item.run_id)
    candidate = view.candidates.get(item.candidate)
    return _shown_paths(candidate.files, mask_of(item, view)) if candidate else {}


def _device(report: TimingReport | None, view: View) -> str:
    if report and report.device:
        return report.device.name
    return str((view.analysis.device if view.analysis else {}).get("name") or "")


def observations(rows: Iterable[CheckRow], mask: Mask) -> list[tuple[str, list[Observation]]]:
    seen: dict[str, list[Observation]] = {key: [] for key in GROUPS}
    for row in rows:
        value = row.value or row.note or "no reading"
        seen[row.group].append(Observation(mask.prose(row.name), mask.prose(value), mask.prose(row.limit), ran=not row.not_run))
    return [(title, seen[key]) for key, title in GROUPS.items() if seen[key]]


def _timing(report: TimingReport) -> Timing:
    rows, head, scale, unit = charts.timing_tracks(report)
    over = {report.baseline: report.over_baseline, "eager": report.over_eager}
    found = [(arm, ratio) for arm, ratio in over.items() if ratio is not None]
    axis = charts.LogAxis.around([1.0, *(v for _, r in found for v in (r.low, r.high))], margin=1.06, least=1.6)
    median = next((a.median_ms for a in report.arms if a.arm == "candidate"), None)
    return Timing(
        rows, head, scale, unit,
        ratios=[Ratio(arm, ratio, charts.interval(ratio, axis)) for arm, ratio in found],
        ratio_scale=charts.interval_axis(axis),
        protocol=report.protocol,
        noise=report.noise,
        floor_share=report.floor_ms / median if report.floor_ms and median else None,
    )  # fmt: skip


def _profile(report: Mapping[str, Any] | None, address: Address, wishes: Mapping[str, str]) -> Profile | None:
    summary = dress.known(report.get("summary")) if report else None
    if report is None or summary is None:
        return None
    told = spread(summary, prefix="candidate", name="candidate", address=address, wishes=wishes)
    return Profile(told["drawn"], told["table"], estimated=report.get("status") == "estimated")


def _request(view: View, candidate: CandidateView, mask: Mask) -> Request | None:
    """The feedback on the parent for a candidate that answers one, else the plan's item."""
    todo = next((t for t in view.plan.todos if t.id == candidate.todo), None) if view.plan else None
    title, why = (todo.title, todo.why) if todo else ("", "")
    decision = decision_of(view, candidate.parent) if candidate.skill == "feedback" and candidate.parent else None
    points: tuple[str, ...] = todo.constraints if todo else ()
    if decision:
        points = (decision.sentence, *decision.evidence, *decision.suggestions)
    told = tuple(mask.prose(p) for p in points if p)
    return Request(mask.prose(title), mask.prose(why), told) if title or told else None


def _files(view: View, candidate: CandidateView, blobs: RunBlobs, mask: Mask, paths: Mask) -> Files:
    """`mask`: of the texts; `paths`: of their paths."""
    parent = view.candidates.get(candidate.parent or "")
    reference = view.header.source if view.header else None
    return {
        "candidate": _texts(candidate.files, blobs, mask, paths),
        "parent": _texts(parent.files, blobs, mask, paths) if parent else {},
        "reference": {REFERENCE_FILE: mask.code(dress.text_of(blobs, reference) or "")},
    }


def _texts(files: Mapping[str, BlobRef], blobs: RunBlobs, mask: Mask, paths: Mask) -> dict[str, str]:
    stored = _shown_paths(files, paths)
    texts = {shown: mask.code(dress.text_of(blobs, files[path]) or "") for shown, path in stored.items()}
    order = sorted(texts, key=lambda p: (p in ("model_new.py", "candidate.toml"), p.endswith((".h", ".hpp", ".cuh")), p))
    return {path: texts[path] for path in order}


def _shown_paths(files: Iterable[str], mask: Mask) -> dict[str, str]:
    """Stored paths by the ones that are shown, names hidden in them; two that would look alike are numbered."""
    found: dict[str, str] = {}
    for path in sorted(files):
        shown = once = mask.code(path)
        number = 1
        while shown in found:
            number += 1
            folder, slash, name = once.rpartition("/")
            shown = f"{folder}{slash}{number}-{name}"
        found[shown] = path
    return found
