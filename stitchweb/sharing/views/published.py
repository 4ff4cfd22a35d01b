"""The list of publications: searched, filtered, in groups that may be ranked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import SafeString

from gpu_runner.contracts import Label
from stitchweb.runs.charts import interval_axis
from stitchweb.sharing.access import collections_for, publications_for
from stitchweb.sharing.board import Grounded
from stitchweb.sharing.models import LICENCES, PRECISIONS, Publication, PublicationQuerySet, PublicationTag
from stitchweb.sharing.permissions import PUBLISH
from stitchweb.sharing.sheet import axis_of, mark_of
from stitchweb.teams.access import teams_for

PER_PAGE = 60
LABELS = [*map(str, PRECISIONS), str(Label.NO_OWN_KERNELS), str(Label.DEGENERATE)]
KEYS = ("q", "target", "tag", "author", "label", "licence", "before")


@dataclass(frozen=True)
class Line:
    """A publication in a list, with the mark of its speed over eager."""

    row: Publication
    mark: SafeString | str


@dataclass
class Section(Grounded):
    """Publications that may be ranked together: one target, protocol, device, mode and precision."""

    ground: tuple[str, str, str, str, str]
    lines: list[Line] = field(default_factory=list)


def sections_of(rows: list[Publication], ranked: bool = True) -> tuple[list[Section], SafeString | str]:
    """(the groups, their common scale). `ranked`: the fastest first in each; else in the order that they come in."""
    axis = axis_of(row.over_eager for row in rows)
    sections: dict[Any, Section] = {}
    for row in sorted(rows, key=lambda r: -(r.over_eager.value if r.over_eager else 0)) if ranked else rows:
        section = sections.setdefault(row.ground, Section(row.ground))
        section.lines.append(Line(row, mark_of(row.over_eager, axis, row.faster)))
    scale = interval_axis(axis) if any(row.over_eager for row in rows) else ""
    found = list(sections.values())
    return (sorted(found, key=lambda s: (s.target != "cpu", s.ground)) if ranked else found), scale


def filtered(rows: PublicationQuerySet, query: dict[str, str]) -> PublicationQuerySet:
    """What the filters leave; `q` also orders it, best first."""
    for key in ("target", "licence"):
        if query[key]:
            rows = rows.filter(**{key: query[key]})
    if query["tag"]:
        rows = rows.filter(tags__word=query["tag"])
    if query["author"].isdecimal():
        rows = rows.filter(author=int(query["author"][:18]))
    label = query["label"]
    if label in PRECISIONS:
        rows = rows.filter(exactness=label)
    elif label == Label.NO_OWN_KERNELS:
        rows = rows.filter(own_kernels=False)
    elif label == Label.DEGENERATE:
        rows = rows.filter(degenerate=True)
    if query["q"]:
        return rows.search(query["q"])
    if query["before"].isdecimal():
        rows = rows.filter(pk__lt=int(query["before"][:18]))
    return rows.order_by("-pk")


def published(request: HttpRequest) -> HttpResponse:
    """The newest versions of what the person's teams published."""
    query = {key: request.GET.get(key, "").strip().replace("\0", "")[:120] for key in KEYS}
    mine = publications_for(request.user).filter(newest=True)
    found = list(filtered(mine, query)[: PER_PAGE + 1])
    shown = found[:PER_PAGE]
    sections, scale = sections_of(shown, ranked=not query["q"])
    kinds = mine.order_by().prefetch_related(None).select_related(None)
    authors = kinds.exclude(author=None).values_list("author", "author__name", "author__email").distinct()[:200]
    context = {
        "section": "published",
        "part": "all",
        "sections": sections,
        "scale": scale,
        "query": query,
        "filtered": any(query[key] for key in KEYS),
        "count": len(shown),
        "more": shown[-1].pk if len(found) > PER_PAGE and not query["q"] else None,
        "cut": len(found) > PER_PAGE and bool(query["q"]),
        "targets": sorted(kinds.values_list("target", flat=True).distinct()[:50]),
        "tags": list(_tags(mine)),
        "authors": sorted((pk, name or email.split("@")[0]) for pk, name, email in authors),
        "labels": LABELS,
        "licences": LICENCES,
        "collections": list(collections_for(request.user)[:8]),
        "may_publish": teams_for(request.user, PUBLISH).exists(),
    }
    return render(request, "sharing/published.html", context)


def _tags(mine: PublicationQuerySet) -> Any:
    wanted = mine.order_by().prefetch_related(None).select_related(None).values("pk")
    return (
        PublicationTag.objects.filter(publication__in=wanted).order_by("word").values_list("word", flat=True).distinct()[:200]
    )
