"""Reports of Nsight Compute as CSV: the raw page (wide: a metric per column) and the details page (long: a metric or a rule per
row). Both become launches with metrics and rules, of which `counters.py` makes KernelCounters.

Process, host and user columns are never kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gpu_runner.profile.limits import Meter, UnreadableProfile
from gpu_runner.profile.names import clean
from gpu_runner.profile.table import base, cells, lines, number

MAX_LAUNCHES = 2000
MAX_RULES = 40
MAX_TEXT = 600
_FIXED = {
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream", "Block Size",
    "Grid Size", "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value", "Rule Name", "Rule Type",
    "Rule Description",
    "Estimated Speedup Type", "Estimated Speedup",
}  # fmt: skip
_PER_SM = "TriageCompute."  # the sampled twins of metrics
_READ = re.compile(
    r"^breakdown:|^launch__|^device__attribute_(?:display_name|compute_capability)|^gpu__time_duration|^dram__(?:bytes|cycles_elapsed)"
    r"|\.avg\.pct_of_peak_sustained_(?:elapsed|active)$|issue_stalled_\w+_per_issue_active\.ratio$|t_sector_hit_rate\.pct$"
    r"|_pred_on\.sum\.(?:per_cycle_elapsed|peak_sustained)$|cycles_elapsed\.avg\.per_second$|^sm__maximum_warps_per_active_cycle"
    r"|^smsp__issue_active\.avg\.per_cycle_active$|average_warp_latency|data_bank_conflicts_pipe_lsu_mem_shared\.sum$"
    r"|average_data_bytes_per_sector_mem_global_op_ld\.|sparsity_off\.sum\.(?:per_second|peak_sustained_elapsed\.per_second)$"
    r"|thread_inst_executed_per_inst_executed"
)
_LINK = re.compile(r"\s*\(?https?://[^\s)]*\)?")
_TYPES = {"OPT": "optimization", "WRN": "warning", "INF": "info", "ERR": "error"}
_NO_ACCESS = "ERR_NVGPUCTRPERM"


@dataclass
class Rule:
    """What NVIDIA's own rule said of a launch."""

    id: str
    section: str
    message: str
    type: str = ""
    speedup_pct: float | None = None
    scope: str = ""
    title: str = ""


@dataclass
class LaunchReport:
    """One profiled launch. `metrics`: (value in base units, unit) by the metric's own name; `labels`: of the details page."""

    name: str
    grid: str = ""
    block: str = ""
    cc: str = ""
    metrics: dict[str, tuple[float, str]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    labels: dict[tuple[str, str], tuple[float, str]] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)


def read_ncu(path: Path, meter: Meter) -> list[LaunchReport]:
    """The launches of a raw or details page. Raises UnreadableProfile with the reason, when one is printed in the file."""
    found: dict[tuple[str, str, str], LaunchReport] = {}
    header: list[str] = []
    units: list[str] = []
    columns: list[tuple[int, str]] = []
    seen_cells = 0
    reason = ""
    for line in lines(path, meter):
        if not line.startswith('"'):
            reason = reason or _reason(line)
            continue
        row = cells(line)
        if row and row[0] == "ID":
            header, units = row, []
            if len(header) != len(set(header)):
                header = _numbered(header)
            columns = _columns(header)
            continue
        if not header or len(row) < 2 or not (row[0].isdecimal() or not row[0]):
            continue
        seen_cells += len(row)
        if seen_cells > meter.limits.cells:
            raise UnreadableProfile("The table of counters is too large to be read: profile fewer launches.")
        if "Metric Name" in header and row[0]:
            _details(dict(zip(header, row, strict=False)), found)
        elif not row[0]:
            units = units or row
        else:
            _raw(header, columns, units, row, found)
        if len(found) > MAX_LAUNCHES:
            raise UnreadableProfile(f"The report holds more than {MAX_LAUNCHES:,} launches: profile fewer.")
    if not found:
        raise UnreadableProfile(
            reason or "The file holds no table of Nsight Compute: export one with ncu --import FILE --csv --page raw."
        )
    return list(found.values())


def _reason(line: str) -> str:
    """A sentence where the tool says why there is no table."""
    if _NO_ACCESS in line:
        return "Nsight Compute had no permission to read the GPU's counters (ERR_NVGPUCTRPERM): an administrator must allow it."
    if "No kernels were profiled" in line:
        return "Nsight Compute profiled no kernel: the kernel's name or the range matched nothing."
    if "LibraryNotLoaded" in line:
        return "Nsight Compute could not load its library on that machine (LibraryNotLoaded)."
    return ""


def _numbered(header: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    named = []
    for name in header:
        seen[name] = seen.get(name, 0) + 1
        named.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return named


def _launch(row: dict[str, str], found: dict[tuple[str, str, str], LaunchReport]) -> LaunchReport:
    """The launch of a row, made on its first. One file may hold the launches of several processes."""
    name = clean(row.get("Kernel Name") or "")
    place = (row.get("ID", ""), row.get("Process ID", ""), name)
    if place not in found:
        found[place] = LaunchReport(
            name, row.get("Grid Size", "")[:60], row.get("Block Size", "")[:60], row.get("CC", "").replace(".", "")[:8]
        )
    return found[place]


def _columns(header: list[str]) -> list[tuple[int, str]]:
    """The columns of a raw page that are read: some 300 of 2,000."""
    return [
        (at, name) for at, name in enumerate(header) if name not in _FIXED and _READ.search(name) and "." + _PER_SM not in name
    ]


def _raw(
    header: list[str], columns: list[tuple[int, str]], units: list[str], row: list[str],
    found: dict[tuple[str, str, str], LaunchReport],
) -> None:  # fmt: skip
    launch = _launch(dict(zip(header[:11], row, strict=False)), found)
    for at, name in columns:
        cell = row[at] if at < len(row) else ""
        if not cell:
            continue
        value = number(cell)
        if value is not None:
            launch.metrics[name] = base(value, units[at] if at < len(units) else "")
        elif name in _TEXTS or name.startswith("breakdown:"):
            launch.texts[name] = clean(cell)


_TEXTS = {"device__attribute_display_name"}


def _details(row: dict[str, str], found: dict[tuple[str, str, str], LaunchReport]) -> None:
    launch = _launch(row, found)
    section = clean(row.get("Section Name") or "")[:80]
    rule = row.get("Rule Name") or ""
    if rule:
        if len(launch.rules) < MAX_RULES:
            launch.rules.append(
                Rule(
                    clean(rule)[:60], section, _sentence(row.get("Rule Description") or ""),
                    _TYPES.get(row.get("Rule Type") or "", (row.get("Rule Type") or "")[:20].lower()),
                    number(row.get("Estimated Speedup") or ""), (row.get("Estimated Speedup Type") or "")[:10],
                )
            )  # fmt: skip
        return
    value = number(row.get("Metric Value") or "")
    if value is not None:
        scaled, unit = base(value, row.get("Metric Unit") or "")
        label = (row.get("Metric Name") or "")[:80]
        launch.labels[label, unit] = (scaled, unit)


def _sentence(text: str) -> str:
    """The rule's words without its links, cut at the end of a sentence."""
    text = clean(_LINK.sub("", text))
    if len(text) <= MAX_TEXT:
        return text
    cut = text[:MAX_TEXT]
    return cut[: cut.rfind(". ") + 1] or cut + "…"


def merge(pages: Iterator[list[LaunchReport]]) -> list[LaunchReport]:
    """The launches of several pages of one report: the n-th launch of a name on one page is the n-th on the others."""
    merged: dict[tuple[str, int], LaunchReport] = {}
    for page in pages:
        count: dict[str, int] = {}
        for launch in page:
            place = (launch.name, count.get(launch.name, 0))
            count[launch.name] = place[1] + 1
            if place not in merged:
                merged[place] = launch
                continue
            one = merged[place]
            one.metrics |= launch.metrics
            one.texts |= launch.texts
            one.labels |= launch.labels
            one.rules = (one.rules + launch.rules)[:MAX_RULES]
            one.cc = one.cc or launch.cc
    return list(merged.values())
