"""Any two publications, candidates or runs side by side."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from stitchweb.runs.judged import judges_of
from stitchweb.sharing.sheet import code_of
from stitchweb.sharing.sides import Side, choices_of, numbers_of, side_of


def compare(request: HttpRequest) -> HttpResponse:
    """`?a=p12&b=r41-c3`: how the second differs from the first. Without both, the form to choose them."""
    words = [request.GET.get(key, "").strip()[:40] for key in ("a", "b")]
    sides: list[Side | None] = []
    problems: list[str] = []
    for word in words:
        try:
            sides.append(side_of(request.user, word) if word else None)
        except Http404 as reason:
            sides.append(None)
            problems.append(str(reason))
    left, right = sides
    context = {
        "section": "published", "part": "compare", "a": words[0], "b": words[1], "left": left, "right": right,
        "problems": problems, **choices_of(request.user),
    }  # fmt: skip
    if left and right:
        code = code_of(right.files, right.source, request.GET.get("file", ""), "before", left.files)
        context |= {
            "numbers": numbers_of(left, right),
            "code": code,
            "judged": _judged(left, right),
            "pair_query": urlencode({"a": left.word, "b": right.word}) + "&",
        }
    return render(request, "sharing/compare.html", context, status=404 if problems else 200)


def _judged(*sides: Side) -> list[Side]:
    """Those of the two that a team's judge may have scored: candidates of its runs."""
    teams = judges_of({side.team for side in sides if side.team is not None})
    return [side for side in sides if side.team in teams]
