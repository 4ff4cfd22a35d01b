"""The job endpoint: what runners say over HTTP. No session, no cookie: a signed token that speaks for one job.

Answers: 200 with JSON; 401 without a good token, or to an unknown runner; 423 to a runner that is to take no jobs now; 410
when nothing is wanted of this runner any more (it stops); 413 and 400 for what is too large or not understood. Anything else
is worth another try.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.core.files.base import ContentFile
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from agents.events import storable
from gpu_runner.broker import HARD_LIMIT_S
from stitchweb.core.logs import about
from stitchweb.core.tracing import span
from stitchweb.runs import hosts, jobbook, libraries
from stitchweb.runs.models import Artifact, Job, JobState

MAX_BODY = 32 * 1024 * 1024  # of a report: a graph of a large model has some megabytes
MOST_FILES = 16  # of one job
MOST_BATCHES = 2**31  # what its column takes
ANSWERS = {"analyse": "analysis", "build": "build", "check": "check", "time": "timing", "profile": "profile"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Bad(Exception):
    """What came cannot be understood."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


def endpoint(view: Callable[..., dict[str, Any] | bytes]) -> Callable[..., HttpResponse]:
    """Checks the token, then answers with the view's dictionary or bytes, or says why not."""

    @csrf_exempt  # no cookie is looked at here, so there is nothing for another site to ride on
    @wraps(view)
    def wrapper(request: HttpRequest, pk: int, **more: str) -> HttpResponse:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or jobbook.job_of(token) != pk:
            return JsonResponse({"error": "The token does not speak for this job."}, status=401)
        try:
            with about(job=pk), span(f"job.{view.__name__}", job=pk):
                told = view(request, pk, **more)
                return HttpResponse(told, "application/octet-stream") if isinstance(told, bytes) else JsonResponse(told)
        except hosts.Unknown as sentence:
            return JsonResponse({"error": str(sentence)}, status=401)
        except jobbook.NotNow as sentence:
            return JsonResponse({"error": str(sentence)}, status=423)
        except jobbook.JobGone:
            return JsonResponse({"error": "Nothing is wanted of this job any more.", "cancel": True}, status=410)
        except Bad as bad:
            return JsonResponse({"error": str(bad)}, status=bad.status)

    return wrapper


@require_POST
@endpoint
def claim(request: HttpRequest, pk: int) -> dict[str, Any]:
    """{"worker"} and the header X-Runner-Secret → {"claim", "task", "keeps", "library"}. `task`: what is to be done;
    `keeps`: the library that it builds is to be sent before the report; `library`: what another host built of its candidate's
    kernels, or None."""
    runner = hosts.known(text_of(body_of(request), "worker"), request.headers.get("X-Runner-Secret", ""))
    mine = jobbook.claim(pk, runner)
    job = Job.objects.get(pk=pk)
    if job.claims > 1:  # what an earlier delivery sent is not this one's, and its runner may have been removed for it
        libraries.drop(Artifact.objects.filter(job=job))
    return {
        "claim": mine, "task": job.task, "keeps": libraries.wanted(job), "library": libraries.named(libraries.of(job)),
    }  # fmt: skip


@require_POST
@endpoint
def progress(request: HttpRequest, pk: int) -> dict[str, Any]:
    """{"claim", "batch", "messages"} → {"cancel"}. Renews the lease; an empty batch is a heartbeat."""
    body = body_of(request)
    batch, messages = body.get("batch"), body.get("messages")
    if type(batch) is not int or not 0 <= batch < MOST_BATCHES or not isinstance(messages, list):
        raise Bad("A batch needs its number and a list of messages.")
    return {"cancel": jobbook.progress(pk, text_of(body, "claim"), batch, messages)}


@require_POST
@endpoint
def report(request: HttpRequest, pk: int) -> dict[str, Any]:
    """{"claim", "report" or "error", "seconds"} → {}. Accepted once; the same again is answered alike. The seconds are the
    team's to pay: no job has more than the time after which a runner ends it."""
    body = body_of(request)
    out, seconds = body.get("report"), body.get("seconds", 0.0)
    if out is not None and not isinstance(out, dict):
        raise Bad("A report is an object.")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= sys.float_info.max:
        raise Bad("The seconds are a number.")
    error = str(body.get("error") or "")
    if out is not None and (wrong := _another(pk, out)):
        out, error = None, wrong
    jobbook.report(pk, text_of(body, "claim"), out, error, min(float(seconds), HARD_LIMIT_S))
    return {}


def _another(pk: int, out: dict[str, Any]) -> str:
    """Why the report does not answer the job's task, in a sentence; empty where it does. One query.

    All reports are read by one rule, so that of another kind would be believed: a host for builds makes no verdict.
    """
    asked = Job.objects.filter(pk=pk).values_list("task__kind", flat=True).first()
    if asked is None or out.get("kind") == ANSWERS.get(asked):
        return ""
    return f"The runner answered a task of the kind {asked!r} with another report, of the kind {str(out.get('kind'))[:40]!r}."


@require_POST
@endpoint
def artifact(request: HttpRequest, pk: int, name: str) -> dict[str, Any]:
    """The bytes of a file, with its claim in the header X-Claim and its digest in X-Sha256. The same name again is answered
    alike and not stored twice."""
    if not _NAME.fullmatch(name):
        raise Bad("A file's name has letters, digits, dots and dashes.")
    _claimed(request, pk)
    there = Artifact.objects.filter(job_id=pk)
    if there.filter(name=name).exists():
        return {}
    if there.count() >= MOST_FILES:
        raise Bad(f"A job has at most {MOST_FILES} files.")
    data = _read(request, settings.MAX_ARTIFACT_MB * 1024 * 1024)
    sha256 = hashlib.sha256(data).hexdigest()
    if request.headers.get("X-Sha256", "") != sha256:
        raise Bad("The file's bytes do not have the digest that X-Sha256 names: it is not stored. Send it again.")
    row = Artifact(job_id=pk, name=name, size=len(data), sha256=sha256)
    with transaction.atomic():
        _claimed(request, pk, lock=True)  # to read it took a while, in which the job may have become another's
        if not there.filter(name=name).exists():
            row.file.save(f"{pk}-{name}", ContentFile(data), save=True)
    return {}


@require_GET
@endpoint
def library(request: HttpRequest, pk: int) -> bytes:
    """The bytes of the library that the claim named, with the claim in the header X-Claim; 404 when it is there no more."""
    found = libraries.of(_claimed(request, pk))
    if found is None:
        raise Bad("There is no library for this job.", status=404)
    try:
        with found.file.open() as file:
            return bytes(file.read())
    except OSError:
        raise Bad("The library of this job was lost.", status=404) from None


def _claimed(request: HttpRequest, pk: int, lock: bool = False) -> Job:
    """The job, which the header X-Claim holds at this moment; `lock`: until the transaction ends. JobGone for any other claim.

    A job that was taken from a runner has an empty claim, which nobody holds.
    """
    jobs = Job.objects.select_for_update() if lock else Job.objects
    mine = request.headers.get("X-Claim", "")
    job = jobs.filter(pk=pk, claim=mine, state=JobState.CLAIMED).first() if mine else None
    if job is None:
        raise jobbook.JobGone
    return job


def body_of(request: HttpRequest, limit: int = MAX_BODY) -> dict[str, Any]:
    """The JSON object that was sent, of at most `limit` bytes. Bad for anything else."""
    try:
        body = json.loads(_read(request, limit))
    except (ValueError, RecursionError):
        raise Bad("The body is not JSON.") from None
    if not isinstance(body, dict):
        raise Bad("The body is not an object.")
    return body


def _read(request: HttpRequest, limit: int) -> bytes:
    data = request.read(limit + 1)
    if len(data) > limit:
        raise Bad(f"At most {limit} bytes are taken.", status=413)
    return data


def text_of(body: dict[str, Any], name: str) -> str:
    """A field that must be there, of characters that a database takes. Bad when it is not."""
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise Bad(f"The field {name!r} is missing.")
    if storable(value) != value:
        raise Bad(f"The field {name!r} holds half a character or a null byte.")
    return value
