"""Leaderboards: over all references, and of one reference on one target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import SafeString

from stitchweb.core.numbers import percent
from stitchweb.programs.models import Revision
from stitchweb.runs.charts import interval_axis
from stitchweb.sharing.access import ended_runs_for, publications_for
from stitchweb.sharing.board import Attempt, Board, Score, attempts_of, boards_of, score_of
from stitchweb.sharing.curves import LINES, Curve, fast_p_curves, sample
from stitchweb.sharing.sheet import axis_of, mark_of

MOST_LEADERS = 100
MOST_RANKED = 50


@dataclass(frozen=True)
class Place:
    """A line of a ranking. `published`: what was published of its run."""

    attempt: Attempt
    mark: SafeString | str
    published: Any = None


@dataclass(frozen=True)
class Sheet:
    """A board as it is shown."""

    board: Board
    scores: list[tuple[Score, SafeString | str]]
    curve: SafeString
    places: list[Place]
    scale: SafeString | str
    more: int


def _sheet(board: Board, scores: list[Score], ranked: list[Attempt], most: int, published: dict[int, Any]) -> Sheet:
    label = "; ".join(
        f"{s.engineer}: " + ", ".join(f"{percent(sig, 0)} above {p:g} times" for p, sig, _ in s.shares) for s in scores[:4]
    )
    curve = fast_p_curves([Curve(s.engineer, s.lows, s.of) for s in scores], f"fast p on {board.target}. {label}")
    axis = axis_of(a.over_eager for a in ranked[:most] if a.solved)
    places = [Place(a, mark_of(a.over_eager, axis, a.faster) if a.solved else "", published.get(a.run)) for a in ranked[:most]]
    samples: list[SafeString | str] = [sample(line) for line in LINES]
    samples += [""] * max(len(scores) - len(LINES), 0)
    scale = interval_axis(axis) if any(p.mark for p in places) else ""
    return Sheet(board, list(zip(scores, samples, strict=False)), curve, places, scale, max(len(ranked) - most, 0))


def leaderboard(request: HttpRequest) -> HttpResponse:
    """Per ground: what each engineer's best runs came to over the references it attempted, and who leads on each reference."""
    boards = boards_of(attempts_of(ended_runs_for(request.user)))
    targets = sorted({b.target for b in boards})
    protocols = sorted({b.protocol for b in boards})
    target, protocol = (request.GET.get(key, "")[:40] for key in ("target", "protocol"))
    shown = [b for b in boards if target in ("", b.target) and protocol in ("", b.protocol)]
    context = {
        "section": "published", "part": "leaderboard", "targets": targets, "protocols": protocols, "target": target,
        "protocol": protocol, "filtered": bool(target or protocol),
        "sheets": [_sheet(b, b.scores, b.leaders, MOST_LEADERS, {}) for b in shown[:12]],
    }  # fmt: skip
    return render(request, "sharing/leaderboard.html", context)


def of_reference(request: HttpRequest, sha256: str, target: str) -> HttpResponse:
    """Per ground: all ended runs of one text, whoever uploaded it, with what was published of them."""
    runs = ended_runs_for(request.user).filter(revision__sha256=sha256, target=target)
    attempts = attempts_of(runs, best=False)
    if not attempts:
        raise Http404("There is no ended run of this reference on this target, or none is shared with you.")
    rows = publications_for(request.user).filter(reference=sha256, target=target)
    published = {row.run_id: row for row in rows.order_by("pk")}
    sheets = []
    for board in boards_of(attempts):
        ranked = sorted(board.attempts, key=lambda a: (-(a.over_eager.value if a.solved and a.over_eager else 0), -a.run))
        scores = sorted(
            (score_of(name, [a for a in ranked if a.engineer == name]) for name in {a.engineer for a in ranked}),
            key=lambda s: (-(s.all_mean or 0), s.engineer),
        )
        sheets.append(_sheet(board, scores, ranked, MOST_RANKED, published))
    revision = Revision.objects.filter(runs__in=[a.run for a in attempts]).select_related("program").order_by("pk").first()
    context = {"section": "published", "part": "leaderboard", "sheets": sheets, "target": target, "revision": revision}
    return render(request, "sharing/reference.html", context)
