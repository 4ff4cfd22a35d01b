"""What comes into a project and goes out of it: files, gold items, the trail; calibration; the version of the rubric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from stitchweb.core.once import once
from stitchweb.review.access import (
    assignments_for,
    blind_to,
    project_for,
    project_to_manage,
    project_with_labels,
    reviewer_of,
    rubrics_for,
)
from stitchweb.review.calibration import FEW, gate, raters
from stitchweb.review.export import label_lines, probe_lines
from stitchweb.review.models import Change, Gold, Held, Reviewer
from stitchweb.review.permissions import MANAGE
from stitchweb.review.rubric import changed
from stitchweb.review.services.gold import add_gold, clear
from stitchweb.review.services.intake import MAX_ROWS, bring_in
from stitchweb.review.services.projects import ProjectRefused
from stitchweb.review.services.retention import OF_REVIEWERS
from stitchweb.review.services.rubrics import move_to
from stitchweb.review.services.seen import note_all
from stitchweb.review.tables import MAX_FILE, labels_csv, read_candidates
from stitchweb.review.views.requests import SignedIn, done, number
from stitchweb.teams.access import may
from stitchweb.teams.models import User

CHANGES = 100  # of the trail, on a page


@require_safe
def data_page(request: SignedIn, pk: int) -> HttpResponse:
    """Files in and out, gold items, and the version of the rubric, for those who manage the project."""
    project = project_to_manage(request.user, pk)
    newer = rubrics_for(request.user).filter(key=project.rubric.key, version__gt=project.rubric.version).order_by("version")
    here = project.rubric.parsed
    context = {
        "section": "review",
        "project": project,
        "gold_n": Gold.objects.filter(item__project=project).count(),
        "probes_n": project.probes.count(),
        "newer": [(row, _touches(here, row)) for row in newer],
        "max_rows": MAX_ROWS,
    }
    return render(request, "review/data.html", context)


def _touches(here: Any, row: Any) -> list[tuple[str, list[str]]]:
    """What a version changes: dimension or "hack", with the levels or words."""
    found: dict[str, list[str]] = {}
    for key, what in sorted(changed(here, row.parsed)):
        found.setdefault(key, []).append(what)
    return list(found.items())


@require_POST
def import_candidates(request: SignedIn, pk: int) -> HttpResponse:
    """Bring in the candidates of a file."""
    project = project_to_manage(request.user, pk)

    def work() -> str:
        file = request.FILES.get("file")
        if file is None:
            raise ProjectRefused("Choose a file first.")
        if (file.size or 0) > MAX_FILE:
            raise ProjectRefused(f"The file is larger than {MAX_FILE // 2**20} MiB. Cut it into parts.")
        rows = read_candidates(str(file.name), file.read())
        came = len(bring_in(request.user, project, rows))
        return f"{came} of {len(rows)} came into the queue; the others are in it already."

    return once(request, lambda: done(request, work, "review-data", pk))


@require_POST
def bring_gold(request: SignedIn, pk: int) -> HttpResponse:
    """Put the site's gold items into the queue."""
    project = project_to_manage(request.user, pk)

    def work() -> str:
        came = add_gold(request.user, project)
        return f"{came} gold items came in. Every reviewer scores them first." if came else "They are all in."

    return done(request, work, "review-data", pk)


@require_POST
def change_rubric(request: SignedIn, pk: int) -> HttpResponse:
    """Go on under a newer version of the rubric."""
    project = project_to_manage(request.user, pk)
    rubric = rubrics_for(request.user).filter(pk=number(request.POST.get("rubric", ""))).first()

    def work() -> str:
        if rubric is None:
            raise ProjectRefused("Choose a version first.")
        count = move_to(request.user, project, rubric)
        return f"The project is at {rubric}. {_labels(count)} touched and asked for again."

    return done(request, work, "review-data", pk)


def _labels(count: int) -> str:
    return "1 label is" if count == 1 else f"{count} labels are"


@require_safe
def probes_file(request: SignedIn, pk: int) -> HttpResponse:
    """All probes, as JSON lines, for those who manage the project."""
    project = project_with_labels(request.user, pk)
    note_all(request.user, project)
    return HttpResponse(
        "".join(f"{line}\n" for line in probe_lines(project)),
        content_type="application/jsonl; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="probes-{project.pk}.jsonl"'},
    )


@require_safe
def labels_file(request: SignedIn, pk: int, form: str) -> HttpResponse:
    """All labels, as JSON lines or CSV, for those who manage the project."""
    project = project_with_labels(request.user, pk)
    note_all(request.user, project)
    lines: Iterator[str] = labels_csv(project) if form == "csv" else (f"{line}\n" for line in label_lines(project))
    kind = "text/csv" if form == "csv" else "application/jsonl"
    return HttpResponse(
        "".join(lines),
        content_type=f"{kind}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="labels-{project.pk}.{form}"'},
    )


@require_safe
def trail(request: SignedIn, pk: int) -> HttpResponse:
    """Every change in a project, newest first. What reviewers did stands under their numbers."""
    project = project_with_labels(request.user, pk)
    note_all(request.user, project)
    numbers = dict(Reviewer.objects.filter(project=project).values_list("user", "number"))
    rows = Paginator(Change.objects.filter(project=project).select_related("user"), CHANGES).get_page(request.GET.get("page"))
    names = _names(rows)
    context = {
        "section": "review",
        "project": project,
        "page": rows,
        "rows": [{"change": c, "who": _who(c, numbers), "fields": _fields(c, names)} for c in rows],
    }
    return render(request, "review/trail.html", context)


def _who(change: Change, numbers: dict[int, int]) -> str:
    if change.act in OF_REVIEWERS and (change.user_id is None or change.user_id in numbers):
        number = numbers.get(change.user_id or 0)
        return f"reviewer {number}" if number else "a reviewer, forgotten"
    if change.act in ("settle", "remark"):
        return "an adjudicator"
    return str(change.user) if change.user else "the site"


def _names(changes: Iterable[Change]) -> dict[int, str]:
    """Names of the people that settings of the project speak of; once they are forgotten only their number is there."""
    lists = [side["people"] for c in changes for side in (c.old, c.new) if isinstance(side.get("people"), list)]
    keys = {pk for some in lists for pk in some}
    return {user.pk: str(user) for user in User.objects.filter(pk__in=keys)}


def _fields(change: Change, names: dict[int, str]) -> list[tuple[str, str | None, str | None]]:
    """Name, old and new value in words; None on a side that does not speak of it."""
    found = list(dict.fromkeys([*change.old, *change.new]))
    return [(name, *(_words(change, side, name, names) for side in (change.old, change.new))) for name in found]


def _words(change: Change, side: dict[str, Any], name: str, names: dict[int, str]) -> str | None:
    if name not in side:
        return None
    value = side[name]
    if name == "people" and isinstance(value, list):
        return ", ".join(names.get(pk, "somebody who is gone") for pk in value) or "nobody"
    if isinstance(value, dict):
        return ", ".join(f"{key.replace('_', ' ')} {level or 'cannot tell'}" for key, level in value.items()) or "–"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "–"
    if value is None and change.act in ("submit", "revise"):
        return "cannot tell"
    return "–" if value in (None, "") else str(value)


@require_safe
def calibration(request: SignedIn, pk: int) -> HttpResponse:
    """Reviewers against the gold items: everybody for those who manage, oneself for a reviewer."""
    project = project_for(request.user, pk)
    part = reviewer_of(request.user, project)
    manages = may(request.user, project.team_id, MANAGE)
    every = raters(project)
    blind = blind_to(request.user).filter(project=project, answer__isnull=False).exists()  # how others did on it tells levels
    answered = assignments_for(request.user).filter(item__project=project, item__answer__isnull=False, state=Held.SUBMITTED)
    context = {
        "section": "review",
        "project": project,
        "manages": manages,
        "raters": every if manages and not blind else [r for r in every if part and r.number == part.number],
        "blind": manages and blind,
        "gold_n": Gold.objects.filter(item__project=project).count(),
        "few": FEW,
        "gate": gate(part) if part else "",
        "answered": answered,
    }
    return render(request, "review/calibration.html", context)


@require_POST
def clear_reviewer(request: SignedIn, pk: int, number: int) -> HttpResponse:
    """Let a reviewer go on below the pass mark, or no more."""
    project = project_to_manage(request.user, pk)
    act = partial(clear, request.user, project, number, request.POST.get("cleared") == "1")
    return done(request, act, "review-calibration", pk)
