"""Programs with their runs: the library, one program, one suite."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, Window
from django.db.models.functions import RowNumber
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from agents.llm.cassette import about_program
from stitchweb.core.once import once
from stitchweb.llm.access import defaults_of, models_of
from stitchweb.llm.permissions import SEE as SEE_MODELS
from stitchweb.programs.access import program_for, programs_for, suite_for, suites_for
from stitchweb.programs.forms import form_problems
from stitchweb.programs.models import Program, Revision
from stitchweb.programs.permissions import UPLOAD
from stitchweb.programs.uploads import Problem
from stitchweb.runs.access import runs_for, with_names
from stitchweb.runs.forms import OptionsForm
from stitchweb.runs.jobbook import create_analysis
from stitchweb.runs.judged import judge_of
from stitchweb.runs.models import Run, RunQuerySet
from stitchweb.runs.permissions import START
from stitchweb.runs.services import RunRefused, start_run
from stitchweb.runs.tables import RunRow, fast_p, rows_of, scale_of
from stitchweb.teams.access import Person, may, require, teams_for
from stitchweb.teams.switch import in_chosen

PER_PAGE = 60
VERDICTS = ("verified", "no-gain", "refused", "failed", "cancelled")


def best_runs(runs: RunQuerySet) -> RunQuerySet:
    """Of each program, target and protocol the one run to show: the fastest ended one, else the newest. One query.

    The places are given out in the index `run_best` alone; only the rows that are shown are read whole.
    """
    place = Window(
        RowNumber(),
        partition_by=[F("revision__program_id"), F("target"), F("protocol")],
        order_by=[F("speedup").desc(nulls_last=True), F("pk").desc()],
    )
    first = runs.order_by().annotate(place=place).filter(place=1)
    return with_names(Run.objects.filter(pk__in=first.values("pk")))


@dataclass
class Section:
    """Rows that may be compared: one target, one protocol."""

    target: str
    protocol: str
    rows: list[RunRow] = field(default_factory=list)


def _wanted(user: Person, query: dict[str, str]) -> Any:
    """The programs that the filters leave, newest first."""
    programs = programs_for(user)
    if text := query["q"]:
        programs = programs.filter(Q(name__icontains=text) | Q(description__icontains=text) | Q(path__icontains=text))
    runs = Run.objects.filter(revision__program=OuterRef("pk"))
    for key in ("target", "protocol", "verdict"):
        if query[key]:
            runs = runs.filter(**{key: query[key]})
    if any(query[key] for key in ("target", "protocol", "verdict")):
        programs = programs.filter(Exists(runs))
    if query["before"].isdecimal():
        programs = programs.filter(pk__lt=int(query["before"][:18]))
    return programs.order_by("-pk")


@require_safe
def library(request: HttpRequest) -> HttpResponse:
    """Programs of the person's teams with the best run of each, in sections that may be ranked."""
    query = {key: request.GET.get(key, "").strip()[:120] for key in ("q", "target", "protocol", "verdict", "before")}
    programs: list[Program] = list(in_chosen(request, _wanted(request.user, query))[: PER_PAGE + 1])
    shown = programs[:PER_PAGE]
    runs = runs_for(request.user).filter(revision__program__in=[p.pk for p in shown])
    for key in ("target", "protocol", "verdict"):
        if query[key]:
            runs = runs.filter(**{key: query[key]})
    found = rows_of(best_runs(runs))
    sections: dict[tuple[str, str], Section] = {}
    for row in sorted(found, key=lambda r: -(r.interval.value if r.interval else 0)):
        key = (row.run.target, row.run.protocol)
        sections.setdefault(key, Section(*key)).rows.append(row)
    with_runs = {row.program_id for row in found}
    mine = in_chosen(request, runs_for(request.user))
    kinds = set(mine.order_by().values_list("target", "protocol").distinct()[:200])
    context = {
        "section": "library",
        "sections": sorted(sections.values(), key=lambda s: (s.target != "cpu", s.target, s.protocol)),
        "scale": scale_of(found),
        "waiting": [p for p in shown if p.pk not in with_runs],
        "active": list(mine.active().with_waits().order_by("-pk")[:8]),
        "suites": list(in_chosen(request, suites_for(request.user))[:8]),
        "more": shown[-1].pk if len(programs) > PER_PAGE else None,
        "query": query,
        "filtered": any(query.values()),
        "targets": sorted({target for target, _ in kinds}),
        "protocols": sorted({protocol for _, protocol in kinds}),
        "verdicts": VERDICTS,
        "count": len(shown),
        "may_upload": teams_for(request.user, UPLOAD).exists(),
    }
    return render(request, "programs/library.html", context)


def _revision(program: Program, wanted: str) -> tuple[Revision, list[Revision]]:
    revisions = list(Revision.objects.filter(program=program).order_by("-number")[:100])
    if wanted:
        chosen = next((r for r in revisions if str(r.number) == wanted.removeprefix("r")), None)
        if chosen is None:
            raise Http404("This program has no such revision.")
        return chosen, revisions
    if not revisions:
        raise Http404("This program has no revision.")
    return revisions[0], revisions


@require_http_methods(["GET", "HEAD", "POST"])
def program_page(request: HttpRequest, pk: int) -> HttpResponse:
    """A program's source, analysis and runs; POST starts a run of the shown revision, or its analysis."""
    program = program_for(request.user, pk)
    revision, revisions = _revision(program, request.GET.get("revision", ""))
    revision.program = program
    models = models_of(program.team) if may(request.user, program.team_id, SEE_MODELS) else ()
    judge = judge_of(program.team_id)
    options = OptionsForm(
        request.POST or None, models, defaults_of(program.team) if models else {}, judge=judge.name if judge else ""
    )
    refused: list[Problem] = []
    if request.method == "POST":
        require(request.user, program.team_id, START)
        if request.POST.get("action") == "analyse":
            create_analysis(revision)
            return redirect(request.get_full_path())
        if options.is_valid():
            try:
                return once(request, lambda: redirect("run", start_run(request.user, revision, options.options()).pk))
            except RunRefused as refusal:
                refused = [Problem("run", str(refusal))]
    runs = rows_of(runs_for(request.user).filter(revision__program=program).with_waits().order_by("-pk")[:50])
    context = {
        "section": "library",
        "team": program.team,
        "program": program,
        "revision": revision,
        "revisions": revisions,
        "analysis": revision.report,
        "runs": runs,
        "scale": scale_of(runs),
        "may_steer": may(request.user, program.team_id, START),
        "recorded": about_program(revision.text),
        "problems": refused + form_problems(options),
        "choices": options.choices(),
        "chosen": options.values(),
        "ticked": options.ticked(),
    }
    wrong = refused or (options.is_bound and options.errors)
    return render(request, "programs/program.html", context, status=422 if wrong else 200)


@require_safe
def source_text(request: HttpRequest, pk: int) -> HttpResponse:
    """The text of a revision, as text."""
    revision, _ = _revision(program_for(request.user, pk), request.GET.get("revision", ""))
    response = HttpResponse(revision.text, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'inline; filename="program-{pk}-r{revision.number}.py"'
    return response


@require_safe
def suite_page(request: HttpRequest, pk: int) -> HttpResponse:
    """A suite's programs with their best runs, and fast_p per target and protocol over all of its programs."""
    suite = suite_for(request.user, pk)
    programs = list(programs_for(request.user).filter(suite=suite).order_by("level", "path", "pk"))
    found = rows_of(best_runs(runs_for(request.user).filter(revision__program__suite=suite)))
    groups = fast_p(found, len(programs))
    by_program: dict[int, list[RunRow]] = {}
    for row in found:
        by_program.setdefault(row.program_id, []).append(row)
    context = {
        "section": "library",
        "team": suite.team,
        "suite": suite,
        "groups": groups,
        "scale": scale_of(found),
        "programs": [{"program": p, "rows": by_program.get(p.pk, [])} for p in programs],
    }
    return render(request, "programs/suite.html", context)
