"""A profile for other programs: our own summary, traces for Perfetto and speedscope, and the kernel table as CSV.

All are made of the summary, so they hold no more of the machine than it does.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from django.http import Http404, HttpResponse
from django.templatetags.static import static
from django.utils.text import slugify

from gpu_runner.profile.exports import chrome_trace, speedscope

Summary = Mapping[str, Any]
COLUMNS = (
    "name", "origin", "count", "total_ns", "median_ns", "min_ns", "max_ns", "share_pct", "dram_bytes", "compute_sol_pct",
    "memory_sol_pct", "verdict",
)  # fmt: skip


@dataclass(frozen=True)
class Export:
    """`made` writes the file; `needs`: the part of the summary without which there is nothing to write."""

    label: str
    content_type: str
    needs: str
    made: Callable[[Summary, str], str]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: names come from other people's programs."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def kernels_csv(summary: Summary) -> str:
    """The kernel table, one row each, in the schema's own names and units; what is unknown is empty."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for kernel in summary["kernels"]:
        counters, verdict = kernel.get("counters") or {}, kernel.get("verdict") or {}
        values = {**kernel, "verdict": verdict.get("class")}
        values |= {name: counters.get(name) for name in ("dram_bytes", "compute_sol_pct", "memory_sol_pct")}
        writer.writerow([_cell(values.get(name)) for name in COLUMNS])
    return text.getvalue()


EXPORTS: dict[str, Export] = {
    "summary.json": Export("Summary (JSON)", "application/json", "schema", lambda s, title: _json(s)),
    "perfetto.json": Export("Trace for Perfetto", "application/json", "timeline", lambda s, title: _json(chrome_trace(s))),
    "speedscope.json": Export(
        "Flame view for speedscope", "application/json", "tree", lambda s, title: _json(speedscope(s, title))
    ),
    "kernels.csv": Export("Kernels (CSV)", "text/csv; charset=utf-8", "kernels", lambda s, title: kernels_csv(s)),
}


def exports_of(summary: Summary) -> list[str]:
    """The names of EXPORTS that this summary can be written as."""
    return [name for name, export in EXPORTS.items() if summary.get(export.needs)]


def answer(summary: Summary | None, name: str, title: str) -> HttpResponse:
    """The file as an attachment. Http404 for an unknown name, and where the profile has nothing to write."""
    if summary is None or name not in exports_of(summary):
        raise Http404("There is no such file of this profile.")
    export = EXPORTS[name]
    try:
        text = export.made(summary, title)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        raise Http404("This profile lacks what the file needs.") from None
    response = HttpResponse(text, content_type=export.content_type)
    response["Content-Disposition"] = f'attachment; filename="{slugify(title)[:80] or "profile"}-{name}"'
    return response


def take_along(summary: Summary, address: Callable[[str], str], title: str) -> dict[str, Any]:
    """`take`: {href, label} of each file; `viewer`: the vendored speedscope with this profile in it, empty without a tree.

    `address(name)`: where a file of EXPORTS lies on this site.
    """
    names = exports_of(summary)
    asked = urlencode({"profileURL": address("speedscope.json"), "title": title}, quote_via=quote)
    place = f"{static('vendor/speedscope/index.html')}#{asked}"
    return {
        "take": [{"href": address(name), "label": EXPORTS[name].label} for name in names],
        "viewer": place if "speedscope.json" in names else "",
    }
