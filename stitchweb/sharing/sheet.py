"""What a page shows of one publication: its numbers, its code, its profile. The team's page and a share link's use the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.utils.safestring import SafeString

from agents.events import ProfileView
from gpu_runner.contracts import BlobRef, DeviceInfo, Interval
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.carry import take_along
from stitchweb.runs.charts import LogAxis, interval, interval_axis
from stitchweb.runs.diffs import Row, candidate_diff, source_rows
from stitchweb.runs.dress import report_of, text_of, timing
from stitchweb.runs.spread import WISHES, known, spread
from stitchweb.sharing.models import Content, Publication

MAX_ROWS = 4000  # of one file on a page; the whole file can be opened
REFERENCE_FILE = "reference.py"


def texts_of(row: Publication, content: Content) -> dict[str, str]:
    """Path to text; a file that is gone is empty."""
    blobs = RunBlobs(row.run_id)
    return {path: text_of(blobs, ref) or "" for path, ref in sorted(content.files.items(), key=_order)}


def _order(item: tuple[str, Any]) -> tuple[bool, bool, str]:
    """Kernels first, of them sources before headers: what was written for this program."""
    path = item[0]
    return not path.startswith("kernels/"), path.endswith((".h", ".hpp", ".cuh")), path


def source_of(row: Publication, content: Content) -> str:
    """The text of the reference."""
    return text_of(RunBlobs(row.run_id), content.source) or row.revision.text


def axis_of(intervals: Iterable[Interval | None]) -> LogAxis:
    return LogAxis.around([1.0, *(v for i in intervals if i for v in (i.low, i.high))], margin=1.06, least=1.5)


def readout(row: Publication) -> dict[str, Any]:
    """The headline: `value` over the fastest correct baseline with its mark; empty where no speed is claimed."""
    value, baseline = row.headline
    if value is None:
        return {}
    axis = axis_of([value])
    return {
        "value": value, "baseline": baseline, "mark": mark_of(value, axis, row.faster), "scale": interval_axis(axis),
    }  # fmt: skip


def timing_of(row: Publication, content: Content) -> dict[str, Any]:
    """The context of the timing panel; empty where nothing may be claimed."""
    report = content.timing
    if report is None or not row.claimed:
        return {}
    shown = {"report": report, "cid": f"v{row.version}", "confirmed": row.confirmed, "significant": row.faster, "id": "timing"}
    return shown | timing(shown, RunBlobs(row.run_id))


def device_of(content: Content) -> DeviceInfo | None:
    report = content.timing
    return report.device if report else None


@dataclass(frozen=True)
class Tab:
    path: str
    note: str  # "new", "gone", "same" or empty


@dataclass(frozen=True)
class Code:
    """The code panel. `against`: what the shown file is compared with, "" for nothing."""

    against: str
    shown: str
    tabs: tuple[Tab, ...]
    rows: tuple[Row, ...]
    more: int
    added: int = 0
    removed: int = 0


def code_of(files: Mapping[str, str], reference: str, file: str, against: str, before: Mapping[str, str] | None = None) -> Code:
    """One file as it is, or against the reference or, as `before`, the files of an earlier version."""
    if against == "reference" or (against == "before" and before is not None):
        diffs = candidate_diff(files, before if against == "before" else None, reference)
        shown = next((d for d in diffs if d.path == file), diffs[0])
        tabs = tuple(Tab(d.path, "gone" if d.gone else "new" if d.new_file else "" if d.rows else "same") for d in diffs)
        return Code(
            against, shown.path, tabs, shown.rows[:MAX_ROWS], max(len(shown.rows) - MAX_ROWS, 0), sum(d.added for d in diffs),
            sum(d.removed for d in diffs),
        )  # fmt: skip
    every = {**files, REFERENCE_FILE: reference}
    path = file if file in every else next(iter(every))
    rows = source_rows(path, every[path])
    return Code("", path, tuple(Tab(p, "") for p in every), rows[:MAX_ROWS], max(len(rows) - MAX_ROWS, 0))


def profile_of(
    row: Publication, content: Content, page: str, address: Callable[[str], str], wishes: Mapping[str, str]
) -> dict[str, Any]:
    """The context of `runs/panels/spread.html` for its own profile; empty without one. `page`: the path of the page that shows
    it; `address(name)`: where a file of it lies."""
    summary = profile_summary(row, content)
    if summary is None:
        return {}

    def place(anchor: str, **more: str) -> str:
        return f"{page}?{urlencode(more)}#{anchor}" if more else f"{page}#{anchor}"

    name = f"v{row.version}"
    told = spread(summary, prefix=name, name=name, address=place, before=None, wishes={k: wishes.get(k, "") for k in WISHES})
    return told | take_along(summary, address, f"{row}")


def profile_summary(row: Publication, content: Content) -> Mapping[str, Any] | None:
    if not content.profile:
        return None
    view = ProfileView(
        role="candidate", candidate=row.candidate, blob=BlobRef.model_validate(content.profile), status="measured"
    )
    report = report_of(RunBlobs(row.run_id), view)
    return known(report.get("summary")) if report else None


def mark_of(value: Interval | None, axis: LogAxis, faster: bool) -> SafeString | str:
    return interval(value, axis, mute=not faster) if value else ""
