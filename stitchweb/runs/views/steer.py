"""What a person asks of a run: controls, an edited plan, a candidate written by hand."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from agents.events import View
from agents.state import Status
from gpu_runner.contracts.candidate import MODEL_FILE
from stitchweb.core.once import once
from stitchweb.runs.access import run_to_steer
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.dress import text_of
from stitchweb.runs.history import view_of
from stitchweb.runs.models import Run
from stitchweb.runs.panels import REFERENCE
from stitchweb.runs.services import ControlRefused, control, replay, run_again, stop_replay
from stitchweb.runs.views.page import known_candidate, writers_read

_ABOUT = {"branch": "from", "profile": "candidate"}  # a button that names a candidate, and what the control calls that
MAX_TODOS = 40
MAX_FILES = 64


def _data(kind: str, request: HttpRequest) -> dict[str, Any]:
    if kind == "hint":
        return {"text": request.POST.get("text", "")[:2000]}
    return {_ABOUT[kind]: request.POST.get(kind, "")[:40]} if kind in _ABOUT else {}


@require_POST
def steer(request: HttpRequest, pk: int) -> HttpResponse:
    """What a button asks for. The page learns of it by an event; without JavaScript by a reload."""
    run = run_to_steer(request.user, pk)
    kind = next((name for name in _ABOUT if name in request.POST), request.POST.get("kind", ""))
    try:
        control(request.user, run, kind, _data(kind, request))
    except ControlRefused as refusal:
        return _refused(request, pk, refusal)
    if request.htmx:
        return HttpResponse(status=204)
    return redirect("run", pk)


def _refused(request: HttpRequest, pk: int, refusal: ControlRefused) -> HttpResponse:
    """The reason, on the page as it stands or on the page anew."""
    if not request.htmx:
        messages.error(request, str(refusal))
        return redirect("run", pk)
    answer = render(request, "runs/refused.html", {"reason": str(refusal)})
    answer["HX-Retarget"], answer["HX-Reswap"] = "#steer-answer", "innerHTML"
    return answer


@require_POST
def replay_check(request: HttpRequest, pk: int) -> HttpResponse:
    """`row=c3/KEY`: that draw of c3's check again. `cancel=c3/ID`: not any more. Both from the panel of checks."""
    run = run_to_steer(request.user, pk)
    cid, _, row = (request.POST.get("row") or request.POST.get("cancel", "")).partition("/")
    try:
        if "cancel" in request.POST:
            job = stop_replay(request.user, run, int(row[:18]) if row.isdecimal() else 0)
        else:
            job = replay(request.user, run, cid, row)
    except ControlRefused as refusal:
        return _refused(request, pk, refusal)
    if request.htmx:
        return HttpResponse(status=204)
    return redirect(f"{reverse('run', args=[pk])}?candidate={job.candidate}#checks-{job.candidate}")


@require_POST
def again(request: HttpRequest, pk: int) -> HttpResponse:
    """A new run of the same program with the same options; with `from=c3` it tries that candidate first."""
    run = run_to_steer(request.user, pk)
    cid, files = request.POST.get("from", ""), None
    if cid:
        view = view_of(run.pk)
        files = _start_files(run, view, known_candidate(view, cid))
    try:
        return once(request, lambda: redirect("run", run_again(request.user, run, files, f"{cid} of run {run.pk}").pk))
    except ControlRefused as refusal:
        messages.error(request, str(refusal))
        return redirect("run", pk)


def _todos(request: HttpRequest, view: View) -> list[dict[str, str]]:
    """The plan as the form has it: known items with title and status, then new ones, in the order of their positions."""
    rows: list[tuple[float, dict[str, str]]] = []
    for place, todo in enumerate(view.plan.todos if view.plan else (), 1):
        title = request.POST.get(f"title-{todo.id}", todo.title).strip()[:200] or todo.title
        keep = request.POST.get(f"keep-{todo.id}") == "on" or todo.status not in ("open", "dropped")
        status = todo.status if keep and todo.status != "dropped" else "open" if keep else "dropped"
        rows.append((_place(request.POST.get(f"place-{todo.id}"), place), {"id": todo.id, "title": title, "status": status}))
    rows.sort(key=lambda row: row[0])
    added = [
        {"id": "", "title": title.strip()[:200], "status": "open"} for title in request.POST.getlist("new") if title.strip()
    ]
    return ([row for _, row in rows] + added)[:MAX_TODOS]


def _place(text: str | None, default: float) -> float:
    try:
        return float(text or default)
    except ValueError:
        return default


@require_http_methods(["GET", "HEAD", "POST"])
def edit_plan(request: HttpRequest, pk: int) -> HttpResponse:
    """The to-do list as a form: reorder, rename, drop, add; then save, or save and approve."""
    run = run_to_steer(request.user, pk)
    view = view_of(run.pk)
    error = ""
    if request.method == "POST":
        try:
            control(request.user, run, "edit_plan", {"todos": _todos(request, view)})
            if "approve" in request.POST:
                control(request.user, run, "approve_plan")
            return redirect("run", pk)
        except ControlRefused as refusal:
            error = str(refusal)
    context = _context(run, view) | {"error": error, "awaiting": view.status.status.value == "awaiting_approval"}
    context["reads_text"] = writers_read(view)
    return render(request, "runs/plan.html", context, status=409 if error else 200)


def _start_files(run: Run, view: View, cid: str) -> dict[str, str]:
    """What the editor opens with: the candidate's files, or the reference turned into a `ModelNew`."""
    blobs = RunBlobs(run.pk)
    if cid == REFERENCE:
        text = text_of(blobs, view.header.source if view.header else None) or ""
        entry = (view.analysis.entry if view.analysis else "") or "Model"
        return {MODEL_FILE: text.replace(f"class {entry}(", "class ModelNew(").replace(f"super({entry},", "super(ModelNew,")}
    return {path: text_of(blobs, ref) or "" for path, ref in view.candidates[cid].files.items()}


def _posted_files(request: HttpRequest) -> dict[str, str]:
    """The files of the form; a file without text is left out."""
    paths, texts = request.POST.getlist("path"), request.POST.getlist("text")
    pairs = zip(paths[:MAX_FILES], texts[:MAX_FILES], strict=False)
    return {path.strip(): text.replace("\r\n", "\n") for path, text in pairs if path.strip() and text.strip()}


@require_http_methods(["GET", "HEAD", "POST"])
def edit_candidate(request: HttpRequest, pk: int, cid: str) -> HttpResponse:
    """Write a candidate by hand, starting from `cid`; it is built, checked and timed like any other.

    A run that has ended takes nothing more in: then the candidate is the first one of a new run with the same options.
    """
    run = run_to_steer(request.user, pk)
    view = view_of(run.pk)
    known_candidate(view, cid)
    error, title = "", ""
    files = _start_files(run, view, cid)
    if request.method == "POST":
        files, title = _posted_files(request), request.POST.get("title", "").strip()[:120]
        parent = None if cid == REFERENCE else cid
        try:
            return once(request, lambda: _take(request, run, files, parent, title, cid, view.status.status))
        except ControlRefused as refusal:
            error = str(refusal)
    context = _context(run, view) | {"cid": cid, "files": files, "error": error, "title": title, "ended": run.ended}
    return render(request, "runs/edit.html", context, status=409 if error else 200)


def _take(
    request: HttpRequest, run: Run, files: dict[str, str], parent: str | None, title: str, cid: str, status: Status
) -> HttpResponse:
    """Gives a hand-written candidate to the run, or, when that has ended, to a new one."""
    if run.ended:
        fresh = run_again(request.user, run, files, title or f"{cid} of run {run.pk}, edited by hand")
        return redirect("run", fresh.pk)
    control(request.user, run, "candidate", {"files": files, "parent": parent, "title": title or "Edited by hand"})
    first = "once the run is resumed" if status is Status.PAUSED else "after the attempt under way"
    messages.success(request, f"Your version is taken: it is built, checked and timed {first}.")
    return redirect("run", run.pk)


def _context(run: Run, view: View) -> dict[str, Any]:
    return {"run": run.pk, "view": view, "team": run.team, "program": run.revision.program, "section": "runs"}
