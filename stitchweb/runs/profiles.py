"""The profile panel of a run: what is said of a candidate, its pictures, and the reference beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from stitchweb.runs.carry import take_along
from stitchweb.runs.pictures import Point
from stitchweb.runs.spread import known, spread


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _points(ctx: Mapping[str, Any]) -> list[Point]:
    """Both programs as points under the roofs: what the forward must compute and move, over the unprofiled time of each."""
    flops, moved = ctx["analysis"] or (0, 0)
    sides = (("reference", "eager", ctx["reference_ms"]), ("forward", ctx["cid"], ctx["median_ms"]))
    return [
        Point(key, str(name), flops / moved, flops / (ms / 1e3), estimated=True)
        for key, name, ms in sides
        if flops and moved and ms
    ]


def profile_context(
    ctx: dict[str, Any], reference: Mapping[str, Any] | None, candidate: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The panel's context out of two ProfileReports as JSON.

    What is said about a candidate comes from its own profile; the reference's stands beside it for comparison only.
    """
    is_reference = ctx["cid"] == "reference"
    report = _map(reference if is_reference else candidate)
    summary, before = known(report.get("summary")), known(_map(reference).get("summary"))

    def address(anchor: str, **wishes: str) -> str:
        return f"{reverse('run', args=[ctx['run']])}?{urlencode({'candidate': ctx['cid'], **wishes})}#{anchor}"

    told: dict[str, Any] = {}
    if summary is not None:
        told = spread(
            summary, prefix=ctx["cid"], name=ctx["cid"], address=address, before=None if is_reference else before, wishes=ctx,
            points=_points(ctx),
        )  # fmt: skip
        files = [ctx["run"], ctx["cid"]]
        title = f"{ctx['cid']} of run {ctx['run']}"
        told |= take_along(summary, lambda name: reverse("run-profile-file", args=[*files, name]), title)
    return {
        **told,
        "sentence": ctx["finding"] or str(report.get("finding") or ""),
        "profile_status": report.get("status"),
        "profile_reason": str(report.get("reason") or ""),
        "coverage": report.get("coverage") if ctx["candidate"] else None,
        "own": bool(report),
        "cached": report.get("cached") is True,
    }
