"""What the team carries away of a publication."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse

from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.carry import answer
from stitchweb.runs.dress import text_of
from stitchweb.sharing.access import publication_for
from stitchweb.sharing.models import Content, Publication
from stitchweb.sharing.sheet import REFERENCE_FILE, profile_summary, source_of
from stitchweb.sharing.take_home import given_of, wheel_of, zip_of


def bundle_zip(request: HttpRequest, pk: int) -> HttpResponse:
    """The candidate with its README, `verify.py` and `result.json`."""
    return zip_of(publication_for(request.user, pk))


def wheel_file(request: HttpRequest, pk: int, name: str) -> HttpResponse:
    """The wheel, under the name that pip wants; any other name leads nowhere."""
    row = publication_for(request.user, pk)
    if name != given_of(row).filename:
        raise Http404("There is no such file of this publication.")
    return wheel_of(row)


def file_text(request: HttpRequest, pk: int, path: str) -> HttpResponse:
    """One of its files, or the reference, as plain text whatever it contains."""
    row = publication_for(request.user, pk)
    return plain(row, path)


def plain(row: Publication, path: str) -> HttpResponse:
    """A file of a publication as an answer. Http404 for any other path."""
    content = Content.objects.get(publication=row)
    ref = content.files.get(path)
    text = source_of(row, content) if path == REFERENCE_FILE and ref is None else text_of(RunBlobs(row.run_id), ref)
    if text is None:
        raise Http404("This publication has no such file.")
    response = HttpResponse(text, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'inline; filename="{path.rsplit("/", 1)[-1]}"'
    return response


def profile_file(request: HttpRequest, pk: int, name: str) -> HttpResponse:
    """The profile for another program: one of `carry.EXPORTS`, as an attachment."""
    row = publication_for(request.user, pk)
    return answer(profile_summary(row, Content.objects.get(publication=row)), name, str(row))
