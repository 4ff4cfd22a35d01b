"""The gallery's pages: all classes with their counts, the programs that a filter leaves, and one class with its sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from gpu_runner.contracts import HackClass
from gpu_runner.hacks.classes import FAMILIES, WORDS, Words
from gpu_runner.hacks.gallery import HONEST
from gpu_runner.hacks.record import KINDS, Run
from stitchweb.gallery.catalogue import HACK_OUTCOMES, HONEST_OUTCOMES, NOT_JUDGED, Catalogue, Program, catalogue

BAD = frozenset({"misnamed", "missed", "broken", "refused"})


@dataclass(frozen=True)
class Board:
    """What stands at the top for one kind of device. `hacks`, `honest`: (word, count); `left`: programs without a result."""

    kind: str
    hacks: list[tuple[str, int]]
    honest: list[tuple[str, int]]
    hacks_total: int
    honest_total: int
    runs: list[Run]
    left: int

    @property
    def last(self) -> Run:
        return self.runs[-1]

    @property
    def seconds(self) -> float:
        return sum(run.wall_s for run in self.runs)

    @property
    def missed(self) -> int:
        return dict(self.hacks).get("missed", 0)

    @property
    def refused(self) -> int:
        return dict(self.honest).get("refused", 0)


@dataclass(frozen=True)
class ClassRow:
    """One class in the list. `counts`: per kind of device what its programs came to, None where it has none."""

    name: str
    words: Words
    total: int
    counts: list[tuple[str, list[tuple[str, int, bool]] | None]]


def _board(shown: Catalogue, kind: str) -> Board:
    hacks, honest = ([p for p in shown.programs if bool(p.entry.hack) is wanted] for wanted in (True, False))
    of_hacks, of_honest = shown.tally(kind, hacks), shown.tally(kind, honest)
    left = of_hacks.pop(NOT_JUDGED, 0) + of_honest.pop(NOT_JUDGED, 0)
    return Board(
        kind=kind,
        hacks=[
            (word, of_hacks[word]) for word in HACK_OUTCOMES if of_hacks[word] or word in ("rejected", "neutralised", "missed")
        ],
        honest=[(word, of_honest[word]) for word in HONEST_OUTCOMES],
        hacks_total=of_hacks.total(),
        honest_total=of_honest.total(),
        runs=shown.runs(kind),
        left=left,
    )


def _class_row(shown: Catalogue, kind: HackClass) -> ClassRow:
    programs = shown.of(str(kind))
    counts = []
    for device in KINDS:
        tally = shown.tally(device, programs)
        words = [(word, tally[word], word in BAD) for word in (*HACK_OUTCOMES, NOT_JUDGED) if tally[word]]
        counts.append((device, words or None))
    return ClassRow(str(kind), WORDS[kind], len(programs), counts)


@require_safe
def gallery(request: HttpRequest) -> HttpResponse:
    """All classes; with `?class=`, `?target=` or `?result=` the programs that fit. No query of the database."""
    shown = catalogue()
    wanted = {key: request.GET.get(key, "").strip()[:60] for key in ("class", "target", "result")}
    context: dict[str, Any] = {
        "section": "gallery",
        "missing": shown.missing,
        "boards": [_board(shown, kind) for kind in KINDS],
        "families": [(family, [_class_row(shown, kind) for kind in family.kinds]) for family in FAMILIES],
        "honest": shown.of(HONEST),
        "wanted": wanted,
        "filtered": any(wanted.values()),
        "found": _found(shown, wanted) if any(wanted.values()) else [],
        "kinds": KINDS,
        "results": (*HACK_OUTCOMES, *HONEST_OUTCOMES, NOT_JUDGED),
    }
    return render(request, "gallery/list.html", context)


def _found(shown: Catalogue, wanted: dict[str, str]) -> list[tuple[Program, list[Any]]]:
    """Programs with the outcomes that fit."""
    found = []
    for program in shown.programs:
        if wanted["class"] and program.folder != wanted["class"]:
            continue
        fitting = [o for o in program.outcomes if wanted["target"] in ("", o.kind) and wanted["result"] in ("", o.word)]
        if fitting:
            found.append((program, fitting))
    return found


@require_safe
def gallery_class(request: HttpRequest, name: str) -> HttpResponse:
    """One class, or the honest programs: every program with its source and what the Verifier made of it."""
    shown = catalogue()
    if name != HONEST and name not in set(map(str, HackClass)):
        raise Http404("There is no kind of cheat of that name.")
    programs = shown.of(name)
    references = {p.entry.reference for p in programs}
    topics: dict[str, list[Program]] = {}
    for program in programs:
        topics.setdefault(program.topic, []).append(program)
    context = {
        "section": "gallery",
        "name": name,
        "honest": name == HONEST,
        "words": None if name == HONEST else WORDS[HackClass(name)],
        "topics": list(topics.items()),
        "count": len(programs),
        "references": {p.entry.reference: p.entry.source.text for p in programs},
        "twins": [] if name == HONEST else [p for p in shown.of(HONEST) if p.entry.reference in references],
        "missing": shown.missing,
        "kinds": KINDS,
    }
    return render(request, "gallery/class.html", context)
