"""Before and after, row by row: what was kept, what went, what came, in time, launches and bytes of an average iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from stitchweb.core.numbers import duration, grouped, size
from stitchweb.runs.charts.axis import pct
from stitchweb.runs.pictures.part import Picture, anchor, headline, number, per_cent, positive, rows_of, wrap

LINE = 40
DRAWN = 8  # rows as bars; the table has more
MAX_ROWS = 60
_WORDS = {"kept": "kept", "gone": "gone", "new": "new"}
_COLUMNS = (
    "Name", "Change", "Time before", "Time after", "Launches before", "Launches after", "Device memory before",
    "Device memory after", "Share before", "Share after",
)  # fmt: skip


def _side(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    side = row.get(name)
    return side if isinstance(side, Mapping) else {}


def _ms(side: Mapping[str, Any]) -> float | None:
    ns = number(side.get("ns"))
    return None if ns is None else ns / 1e6


def _count(value: Any) -> str:
    """Launches of an average iteration: whole where they are, else with one decimal."""
    count = number(value)
    return "–" if count is None else grouped(count) if count == round(count) else f"{count:.1f}"


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    before, after = _side(row, "reference"), _side(row, "candidate")
    return (
        str(row.get("short_name") or row.get("key") or "unnamed"),
        _WORDS.get(str(row.get("change")), "–"),
        *(duration(_ms(side)) for side in (before, after)),
        *(_count(side.get("launches")) for side in (before, after)),
        *(size(number(side.get("bytes"))) for side in (before, after)),
        *(per_cent(number(side.get("share_pct"))) for side in (before, after)),
    )


def changes(rows: Sequence[Mapping[str, Any]], *, prefix: str, name: str, title: str) -> Picture | None:
    """`rows` of one part of `gpu_runner.profile.compare`, those that changed most first. None where there is nothing.

    Two bars a row on one scale: the upper is the reference, the lower the candidate. `name` is the picture's id.
    """
    told = [row for row in rows if positive(_side(row, "reference").get("ns")) or positive(_side(row, "candidate").get("ns"))]
    if not told:
        return None
    shown = told[:DRAWN]
    most = max(positive(_side(row, side).get("ns")) for row in shown for side in ("reference", "candidate"))
    drawn: list[SafeString] = []
    for n, row in enumerate(shown):
        cells = _cells(row)
        reading = {"gone": f"{cells[2]} → gone", "new": f"new → {cells[3]}"}.get(cells[1], f"{cells[2]} → {cells[3]}")
        y = n * LINE
        bars = [
            format_html(
                '<rect class="c {}" y="{}" width="{}" height="7"/>', klass, top, pct(100 * positive(_side(row, side).get("ns")) / most)
            )
            for side, klass, top in (("reference", "b-was", y + 16), ("candidate", "b-main", y + 24))
            if positive(_side(row, side).get("ns"))
        ]  # fmt: skip
        drawn.append(
            format_html(
                '<g id="{}"><title>{}</title>{}<rect class="lane" y="{}" width="100%" height="15"/>{}</g>',
                anchor(prefix, f"{name}:{row.get('key')}"), f"{cells[0]}: {reading}, launches {cells[4]} → {cells[5]}",
                headline(cells[0], reading, y), y + 16, format_html_join("", "{}", ((bar,) for bar in bars)),
            )
        )  # fmt: skip
    said = f"{title}: " + "; ".join(f"{c[0]} {c[2]} before, {c[3]} after" for c in map(_cells, shown))
    rest = len(told) - len(shown)
    return Picture(
        name, title, wrap(prefix, name, LINE * len(shown) - 6, said, *drawn, css="bars"), _COLUMNS,
        rows_of(_cells(row) for row in told[:MAX_ROWS]),
        note=f"{rest} more that changed less are in the table." if rest else "", legend=(("was", "before"), ("now", "after")),
    )  # fmt: skip
