"""What people carry away: a zip, single files, logs. Always as text or attachment, never as a page."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.text import slugify
from django.views.decorators.http import require_safe

from agents.bundle import bundle
from gpu_runner.sandbox.output import readable
from stitchweb.runs.access import run_for
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.carry import answer
from stitchweb.runs.dress import summary_of, text_of
from stitchweb.runs.history import view_of
from stitchweb.runs.models import Run


def _text(text: str, name: str) -> HttpResponse:
    """Program text: shown as plain text whatever it contains."""
    response = HttpResponse(text, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'inline; filename="{name}"'
    return response


@require_safe
def bundle_zip(request: HttpRequest, pk: int, cid: str) -> HttpResponse:
    """The candidate with its README, `verify.py` and `result.json`."""
    return bundle_of(run_for(request.user, pk), cid)


def bundle_of(run: Run, cid: str) -> HttpResponse:
    """The zip of a candidate as an attachment. Http404 for one that the run does not have."""
    try:
        data = bundle(run.load(), RunBlobs(run.pk), cid)
    except KeyError:
        raise Http404("This run has no such candidate, or its files are not stored here any more.") from None
    response = HttpResponse(data, content_type="application/zip")
    response["Content-Disposition"] = f'attachment; filename="{slugify(run.name) or "program"}-{run.pk}-{cid}.zip"'
    return response


@require_safe
def file_text(request: HttpRequest, pk: int, cid: str, path: str) -> HttpResponse:
    """One file of a candidate as plain text."""
    run_for(request.user, pk)
    candidate = view_of(pk).candidates.get(cid)
    ref = candidate.files.get(path) if candidate else None
    text = text_of(RunBlobs(pk), ref)
    if text is None:
        raise Http404("This candidate has no such file.")
    return _text(text, path.rsplit("/", 1)[-1])


@require_safe
def build_log(request: HttpRequest, pk: int, cid: str) -> HttpResponse:
    """The whole build log of a candidate as plain text."""
    run_for(request.user, pk)
    candidate = view_of(pk).candidates.get(cid)
    text = text_of(RunBlobs(pk), (candidate.build or {}).get("log")) if candidate else None
    if text is None:
        raise Http404("There is no build log of this candidate.")
    return _text(readable(text), f"build-{cid}.log")


@require_safe
def profile_file(request: HttpRequest, pk: int, cid: str, name: str) -> HttpResponse:
    """The profile of a candidate, or of the `reference`, for another program: one of `carry.EXPORTS`, as an attachment."""
    run = run_for(request.user, pk)
    return answer(summary_of(RunBlobs(pk), view_of(pk).profiles.get(cid)), name, f"{run.name} {pk} {cid}")
