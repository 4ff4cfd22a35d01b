"""What a panel needs beyond its picked data when it is rendered: charts, sources, logs, profiles.

Blobs may be gone (pruned, or an import without them): then the panel says so, and the page stands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from django.urls import reverse

from agents.events import ProfileView
from gpu_runner.contracts import BlobRef, Interval
from stitchweb.runs import charts
from stitchweb.runs.charts.lanes import Node
from stitchweb.runs.diffs import candidate_diff, source_rows
from stitchweb.runs.pictures import anchor
from stitchweb.runs.profiles import profile_context
from stitchweb.runs.spread import known

LOG_SHOWN = 12_000
MAX_ANSWERS = 6
MAX_ROWS = 1500  # of one file on a page; the whole file can be taken home


class _Blobs(Protocol):
    def get(self, ref: BlobRef) -> bytes: ...


def text_of(blobs: _Blobs, ref: BlobRef | Mapping[str, Any] | None) -> str | None:
    """The text of a blob, None where there is none (any more)."""
    if ref is None:
        return None
    try:
        blob = ref if isinstance(ref, BlobRef) else BlobRef.model_validate(ref)
        return blobs.get(blob).decode("utf-8", "replace")
    except (KeyError, ValueError, OSError):
        return None


def _texts(blobs: _Blobs, files: Mapping[str, BlobRef]) -> dict[str, str]:
    return {path: text_of(blobs, ref) or "" for path, ref in files.items()}


def state(ctx: dict[str, Any], blobs: _Blobs) -> dict[str, Any]:
    reading = ctx["reading"]
    if reading is None:
        return {}
    axis = charts.LogAxis.around([1.0, reading.interval.low, reading.interval.high], margin=1.06, least=1.6)
    return {
        "mark": charts.interval(reading.interval, axis, mute=not reading.significant),
        "scale": charts.interval_axis(axis),
    }


def plan(ctx: dict[str, Any], blobs: _Blobs) -> dict[str, Any]:
    if ctx["plan"] is None:
        return {}
    todos = ctx["plan"].todos
    values = [v for t in todos for v in (t.predicted, t.measured, t.measured_low, t.measured_high)]
    axis = charts.LogAxis.around([1.0, *values], margin=1.08, least=1.4)
    rows = []
    for todo in todos:
        measured = None
        if todo.measured is not None:
            measured = Interval(
                value=todo.measured,
                low=todo.measured if todo.measured_low is None else todo.measured_low,
                high=todo.measured if todo.measured_high is None else todo.measured_high,
            )
        mark = charts.interval(measured, axis, predicted=todo.predicted) if measured or todo.predicted is not None else ""
        rows.append({"todo": todo, "mark": mark, "measured": measured, "answers": _answers(ctx["run"], todo.rows)})
    return {"rows": rows}


def _answers(run: int, keys: Sequence[str]) -> list[tuple[str, str]]:
    """The rows of the reference's profile that a to-do answers, each with the address of its row in the kernel table."""
    page = f"{reverse('run', args=[run])}?candidate=reference"
    return [(key, f"{page}#{anchor('reference', f'kernels:{key}')}") for key in keys[:MAX_ANSWERS]]


def candidates(ctx: dict[str, Any], blobs: _Blobs) -> dict[str, Any]:
    bounds = [
        v for r in ctx["rows"] if r.timing and r.timing.over_eager for v in (r.timing.over_eager.low, r.timing.over_eager.high)
    ]
    axis = charts.LogAxis.around([1.0, *bounds], margin=1.06, least=1.5)
    graph = charts.lanes(
        [
            Node(
                r.view.id,
                r.view.parent,
                "a" if r.best else "d" if r.live else "v" if r.view.verdict == "verified" else "",
                r.view.id in ctx["won"],
            )
            for r in ctx["rows"]
        ]
    )
    marks = {
        r.view.id: charts.interval(r.timing.over_eager, axis, mute=not r.best)
        for r in ctx["rows"]
        if r.timing and r.timing.over_eager
    }
    return {"graph": graph, "marks": marks, "scale": charts.interval_axis(axis) if marks else ""}


def diff(ctx: dict[str, Any], blobs: _Blobs) -> dict[str, Any]:
    reference = text_of(blobs, ctx["source"])
    if not ctx["files"]:
        rows = source_rows("reference.py", reference) if reference else ()
        return {"source_rows": rows[:MAX_ROWS], "missing": reference is None}
    against = "reference" if ctx.get("against") == "reference" or ctx["parent"] is None else "parent"
    parent = _texts(blobs, ctx["parent_files"]) if against == "parent" else None
    diffs = candidate_diff(_texts(blobs, ctx["files"]), parent, reference or "")
    shown = next((d for d in diffs if d.path == ctx.get("file")), diffs[0])
    return {
        "against": against,
        "diffs": diffs,
        "shown": shown,
        "rows": shown.rows[:MAX_ROWS],
        "more": max(len(shown.rows) - MAX_ROWS, 0),
        "added": sum(d.added for d in diffs),
        "removed": sum(d.removed for d in diffs),
        "changed": sum(bool(d.rows) for d in diffs),
        "missing": any(text_of(blobs, ref) is None for ref in ctx["files"].values()),
    }


def build(ctx: dict[str, Any], blobs: _Blobs) -> dict[str, Any]:
    log = text_of(blobs, (ctx["build"] or {}).get("log")) or ""
    return {"log": log[-LOG_SHOWN:], "log_cut": len(log) > LOG_SHOWN}


def timing(ctx: dict[str, Any], blobs: _Blobs) -> dict[str, Any]:
    report = ctx["report"]
    if report is None or not (report.arms or report.errors):
        return {}
    rows, head, scale, unit = charts.timing_tracks(report)
    median = next((a.median_ms for a in report.arms if a.arm == "candidate"), None)
    over = {report.baseline: report.over_baseline, "eager": report.over_eager}
    return {
        "rows": rows,
        "track_head": head,
        "track_scale": scale,
        "unit": unit,
        "over": {a.arm: over.get(a.arm) for a in report.arms},
        "rough": {a.arm: a.median_ms / median for a in report.arms} if median else {},
        "rough_only": bool(median) and any(a.arm != "candidate" and over.get(a.arm) is None for a in report.arms),
        "of_floor": report.floor_ms / median if report.floor_ms and median else None,
    }


def report_of(blobs: _Blobs, profile: ProfileView | None) -> dict[str, Any] | None:
    """The ProfileReport behind a profile as JSON, None where it is gone or nothing that can be read."""
    text = text_of(blobs, profile.blob) if profile else None
    try:
        report = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    return report if isinstance(report, dict) else None


def summary_of(blobs: _Blobs, profile: ProfileView | None) -> Mapping[str, Any] | None:
    """The summary behind a profile, None without one."""
    report = report_of(blobs, profile)
    return known(report.get("summary")) if report else None


def profile(ctx: dict[str, Any], blobs: _Blobs) -> dict[str, Any]:
    return profile_context(ctx, report_of(blobs, ctx["reference"]), report_of(blobs, ctx["candidate"]))
