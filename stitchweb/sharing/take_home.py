"""The files that people carry away: a bundle and a wheel, whole for the team, without the run for strangers."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse
from django.utils.text import slugify
from pydantic import ValidationError

from agents.bundle import bundle, members
from agents.wheel import Given, NoWheel, public, wheel
from stitchweb.core.numbers import ratio, ratio_range
from stitchweb.runs.blobs import RunBlobs
from stitchweb.sharing.models import Content, Publication

GONE = "Its files are not stored here any more."


def given_of(row: Publication) -> Given:
    return Given(row.name, row.version, "" if row.licence == "internal" else row.licence)


def zip_of(row: Publication) -> HttpResponse:
    """The bundle of the candidate, with README, `verify.py` and `result.json`."""
    try:
        data = bundle(row.run.load(), RunBlobs(row.run_id), row.candidate)
    except (KeyError, ValidationError):
        raise Http404(GONE) from None
    return attachment(data, "application/zip", f"{slugify(row.name) or 'program'}-v{row.version}.zip")


def wheel_of(row: Publication) -> HttpResponse:
    """A wheel that tells of its run, for the team."""
    return _wheel(_members(row), row)


def public_wheel_of(row: Publication, content: Content, numbers: bool) -> HttpResponse:
    """A wheel for whoever holds a link: without the run, and without numbers unless they are shown."""
    told = numbers_of(row, content) if numbers else None
    return _wheel(public(_members(row), given_of(row), told, sentence_of(row) if numbers else ""), row)


def _members(row: Publication) -> dict[str, str]:
    try:
        return members(row.run.load(), RunBlobs(row.run_id), row.candidate)
    except (KeyError, ValidationError):
        raise Http404(GONE) from None


def _wheel(files: dict[str, str], row: Publication) -> HttpResponse:
    given = given_of(row)
    try:
        return attachment(wheel(files, given), "application/octet-stream", given.filename)
    except NoWheel as reason:
        raise Http404(str(reason)) from None


def attachment(data: bytes, content_type: str, name: str) -> HttpResponse:
    response = HttpResponse(data, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def sentence_of(row: Publication) -> str:
    """The numbers in one sentence, never without interval, baseline, protocol and device."""
    over, baseline = row.headline
    if over is None:
        return "No speed is claimed."
    against = "eager PyTorch" if baseline == "eager" else f"torch.compile ({baseline})"
    plain = "" if row.faster else f", which is {row.speed.replace('-', ' ')}"
    return (
        f"{ratio(over.value)}× as fast as {against}{plain} (95 % interval {ratio_range(over.low, over.high)}), protocol"
        f" {row.protocol}{'' if row.confirmed else ', quick timing'}, on {row.device or 'a machine that is not known'}."
    )


def numbers_of(row: Publication, content: Content) -> dict[str, Any]:
    """The numbers with what they stand on, for machines. Ratios are null where no speed is claimed."""
    report = content.timing
    device = report.device if report else None
    kept = ("kind", "name", "cores", "torch", "driver", "runtime", "compiler")
    return {
        "verdict": "verified",
        "labels": list(row.labels),
        "protocol": row.protocol,
        "target": row.target,
        "mode": row.mode,
        "precision": row.precision,
        "confirmed": row.confirmed,
        "speed": row.speed,
        "baseline": row.baseline or None,
        "over_baseline": _bounds(row.over_baseline),
        "over_eager": _bounds(row.over_eager),
        "over_compile": _bounds(row.over_compile),
        "own_kernels": row.coverage,
        "device": {key: getattr(device, key) for key in kept} if device else None,
    }


def _bounds(value: Any) -> dict[str, float] | None:
    return {"value": value.value, "low": value.low, "high": value.high} if value else None
