"""Two programs side by side: publications, candidates or the bests of runs. Numbers stand there only on common ground."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django.http import Http404
from django.urls import reverse
from django.utils.safestring import SafeString

from gpu_runner.contracts import Interval, Speed, TimingReport
from stitchweb.core.numbers import duration, ratio
from stitchweb.runs.access import run_for, runs_for
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.charts import interval_axis
from stitchweb.runs.dress import text_of
from stitchweb.runs.history import view_of
from stitchweb.runs.panels import report_of
from stitchweb.sharing.access import publication_for, publications_for
from stitchweb.sharing.ground import Ground, apart
from stitchweb.sharing.models import Content
from stitchweb.sharing.sheet import axis_of, mark_of, source_of, texts_of
from stitchweb.teams.access import Person

_WORD = re.compile(r"p(?P<publication>\d{1,18})|r(?P<run>\d{1,18})(?:-(?P<candidate>c\d{1,6}))?")


@dataclass(frozen=True)
class Side:
    """One of the two. `word` names it in an address: p12, r41 (its best), r41-c3."""

    word: str
    title: str
    kind: str
    href: str
    files: dict[str, str]
    source: str
    verdict: str
    labels: tuple[str, ...]
    report: TimingReport | None
    ground: Ground
    confirmed: bool
    degenerate: bool = False
    run: int | None = None  # whose judge may be asked, with the candidate
    candidate: str = ""
    team: int | None = None

    @property
    def claimed(self) -> bool:
        """Whether it may show a speed: right, not degenerate, and claimed."""
        return (
            self.verdict == "verified" and not self.degenerate and self.report is not None
            and self.report.speed is not Speed.NOT_CLAIMED
        )  # fmt: skip

    def median(self, arm: str = "candidate") -> float | None:
        return next((a.median_ms for a in self.report.arms if a.arm == arm), None) if self.report else None


def side_of(user: Person, word: str) -> Side:
    """What the word names, if the person may see it. Http404 otherwise."""
    match = _WORD.fullmatch(word.strip())
    if match is None:
        raise Http404("Name what to compare as p12 (a publication), r41 (the best of a run) or r41-c3 (one of its candidates).")
    if match["publication"]:
        return _publication(user, int(match["publication"]))
    return _candidate(user, int(match["run"]), match["candidate"] or "")


def _publication(user: Person, pk: int) -> Side:
    row = publication_for(user, pk)
    content = Content.objects.get(publication=row)
    report = content.timing
    ground = Ground.of(report, row.target, row.mode, row.precision, row.reference)
    return Side(
        f"p{pk}", str(row), "publication", row.get_absolute_url(), texts_of(row, content), source_of(row, content), "verified",
        tuple(row.labels), report, ground, row.confirmed, row.degenerate,
    )  # fmt: skip


def _candidate(user: Person, pk: int, cid: str) -> Side:
    run = run_for(user, pk)
    view = view_of(pk)
    word, cid = f"r{pk}-{cid}" if cid else f"r{pk}", cid or view.best or ""
    candidate = view.candidates.get(cid)
    if candidate is None:
        raise Http404(f"Run {pk} has no candidate {cid}." if cid else f"Run {pk} has no best candidate: name one, as r{pk}-c1.")
    blobs, header, report = RunBlobs(pk), view.header, report_of(candidate)
    labels = [str(label) for label in (*candidate.labels, *(report.labels if report else ()))]
    ground = Ground.of(
        report, run.target, str(header.mode) if header else "", str(header.precision) if header else "", run.revision.sha256
    )
    return Side(
        word, f"{cid} of run {pk}", f"{run.name}, {candidate.title}", f"{reverse('run', args=[pk])}?candidate={cid}#pinned",
        {path: text_of(blobs, ref) or "" for path, ref in candidate.files.items()}, run.revision.text,
        candidate.verdict or candidate.status, tuple(dict.fromkeys(labels)), report, ground, candidate.confirmed is not None,
        bool(view.analysis and view.analysis.nulls), pk, cid, run.team_id,
    )  # fmt: skip


@dataclass(frozen=True)
class Measure:
    """One line of the comparison. Either an interval with its mark or a text, for each side."""

    name: str
    left: Interval | None
    right: Interval | None
    left_mark: SafeString | str = ""
    right_mark: SafeString | str = ""
    left_text: str = ""
    right_text: str = ""


@dataclass(frozen=True)
class Numbers:
    """`reasons`: why no numbers stand here; then there are none. `sentence`: what they say together."""

    reasons: tuple[str, ...] = ()
    measures: tuple[Measure, ...] = ()
    scale: SafeString | str = ""
    sentence: str = ""


def numbers_of(a: Side, b: Side) -> Numbers:
    """The numbers of both, or every reason why they may not stand side by side."""
    # What was not claimed was often not timed either: that its ground is not known is then no news.
    reasons = [_unclaimed(side) for side in (a, b) if not side.claimed] or apart(a.ground, b.ground)
    if reasons:
        return Numbers(tuple(dict.fromkeys(reasons)))
    assert a.report is not None
    assert b.report is not None
    same = a.ground.reference == b.ground.reference
    pairs: list[tuple[str, Interval | None, Interval | None]] = [
        ("Over eager", a.report.over_eager, b.report.over_eager),
        ("Over the best torch.compile", a.report.over_compile, b.report.over_compile),
    ]
    pairs = [pair for pair in pairs if pair[1] or pair[2]]
    axis = axis_of(value for _, left, right in pairs for value in (left, right))
    measures = [
        Measure(name, left, right, mark_of(left, axis, _faster(a)), mark_of(right, axis, _faster(b)))
        for name, left, right in pairs
    ]
    if same:
        for name, arm in (("Time per call, median", "candidate"), ("Eager beside it, median", "eager")):
            measures.append(Measure(name, None, None, left_text=duration(a.median(arm)), right_text=duration(b.median(arm))))
    return Numbers((), tuple(measures), interval_axis(axis), _together(a, b, same))


def _faster(side: Side) -> bool:
    return side.report is not None and side.report.speed is Speed.FASTER


def _unclaimed(side: Side) -> str:
    if side.verdict != "verified":
        return f"{side.title} is {side.verdict}: only verified programs have numbers."
    if side.degenerate:
        return f"The program of {side.title} is degenerate: no speed is claimed on it."
    return f"No speed is claimed for {side.title}."


def _together(a: Side, b: Side, same: bool) -> str:
    left, right = a.report.over_eager if a.report else None, b.report.over_eager if b.report else None
    if not same:
        return "They have different references, so each ratio is over its own, and their times are not compared."
    if left is None or right is None:
        return "One of them has no ratio over eager."
    if left.low > right.high or right.low > left.high:
        first, more, less = (a, left, right) if left.low > right.high else (b, right, left)
        return (
            f"{first.title} gains more over eager: {ratio(more.low)}× at least, where the other reaches {ratio(less.high)}× at"
            " most. They were measured apart, so the quotient of the two is no speedup that is claimed."
        )
    return "Their intervals over eager overlap: by these measurements, which were made apart, they are not distinguishable."


def choices_of(user: Person) -> dict[str, Any]:
    """What the form offers: newest publications, and runs that have a best candidate."""
    rows = publications_for(user).filter(newest=True).prefetch_related(None).order_by("-pk")[:60]
    runs = runs_for(user).exclude(best="").order_by("-pk")[:60]
    return {
        "publications": [(f"p{row.pk}", str(row), row.target) for row in rows],
        "runs": [(f"r{run.pk}", f"run {run.pk}, {run.name}", run.target) for run in runs],
    }
