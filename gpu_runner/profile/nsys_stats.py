"""`nsys stats --format csv`, several tables in one file: kernels, copies and calls without their times of start.

It gives shares of the GPU's time only; causes need the SQLite export. Tables are told by their header, of any year since 2021.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from gpu_runner.profile.limits import Meter, UnreadableProfile
from gpu_runner.profile.names import clean, key, short
from gpu_runner.profile.origin import origin
from gpu_runner.profile.system import MAX_CALLS, MAX_KERNELS, SCHEMA
from gpu_runner.profile.table import base, cells, lines, number

_HEADER = re.compile(r"(Total Time|Total|Avg|Average|Med|Min|Minimum|Max|Maximum) ?\((\w+)\)|(Total|Average|Minimum|Maximum)$")
_COPY = re.compile(r"\[CUDA (?:(Unified Memory|Unified) )?mem(?:cpy|set)(?: Unified)?(?: (\w)\w*?-?[tT]o-?(\w)\w*)?\]")
_COPY_MEMSET = "[CUDA memset]"


def read_stats(path: Path, meter: Meter) -> dict[str, Any]:
    """The summary without verdicts. Raises UnreadableProfile."""
    tables: dict[str, list[dict[str, Any]]] = {"kernels": [], "copies": [], "sizes": [], "api": []}
    header: list[str] = []
    for line in lines(path, meter):
        row = cells(line)
        if len(row) < 4:
            header = header if row and len(row) > 1 else []
            continue
        if row[0] in ("Time (%)", "Time(%)") or re.fullmatch(r"Total \(\w+\)", row[0]):
            header = row
        elif header:
            _row(header, row, tables)
    if not (tables["kernels"] or tables["copies"] or tables["api"]):
        raise UnreadableProfile("The file holds no table of nsys stats that is read: kernels, copies or calls.")
    whole = sum(k["total_ns"] for k in tables["kernels"])
    for kernel in tables["kernels"]:
        kernel["share_pct"] = 100.0 * kernel["total_ns"] / whole if whole else None
    sizes = {row["kind"]: row["bytes"] for row in tables["sizes"]}
    for copy in tables["copies"]:
        copy["bytes"] = sizes.get(copy["kind"])
        copy["rate_Bps"] = copy["bytes"] / (copy["time_ns"] / 1e9) if copy["bytes"] and copy["time_ns"] else None
    none = {"status": "unavailable", "reason": "statistics hold sums, no times: export the report as SQLite"}
    measured = {"status": "measured", "reason": ""}
    return {
        "schema": SCHEMA,
        "source": {
            "tool": "nsys", "tool_version": "", "format_version": "stats", "status": "measured", "reason": "",
            "events_lost": False,
            "warnings": ["shares are of the kernels' time: statistics do not hold the wall time"],
        },
        "target": {"role": "reference", "program_sha256": "", "iterations": None},
        "device": {
            "kind": "gpu", "name": "", "cc": None, "sm_count": None, "mem_bandwidth_Bps": None, "peak_flops": {},
            "peaks_from": None,
            "driver": "", "runtime": "",
        },
        "window": {"start_ns": 0, "end_ns": 0, "wall_ns": 0, "basis": "sums"},
        "gpu": None, "cpu": None, "copies": tables["copies"], "api": tables["api"][:MAX_CALLS],
        "kernels": sorted(tables["kernels"], key=lambda k: -k["total_ns"])[:MAX_KERNELS], "ops": [], "tree": None,
        "timeline": None,
        "figures": {
            "gpu": none, "kernels": measured, "cpu": none, "ops": none,
            "counters": {"status": "unavailable", "reason": "no report of Nsight Compute"},
        },
    }  # fmt: skip


def _row(header: list[str], row: list[str], tables: dict[str, list[dict[str, Any]]]) -> None:
    values = dict(zip(header, row, strict=False))
    count = next(
        (number(values[name]) for name in ("Instances", "Count", "Num Calls", "Calls", "Operations") if name in values), None
    )
    name = values.get("Name") or values.get("Operation") or ""
    if count is None or not name or "Range" in values:
        return
    figures: dict[str, float] = {}
    for label, cell in values.items():
        match, value = _HEADER.match(label), number(cell)
        if match and value is not None:
            what, unit = (match[1] or match[3]), (match[2] or "ns")
            figures[what.split()[0].lower()[:3]] = base(value, unit.replace("MB", "Mbyte").replace("GB", "Gbyte"))[0]
    total = figures.get("tot")
    if total is None:
        return
    if "Operation" in values or name.startswith("[CUDA mem"):
        kind = _kind(name)
        if any(label.startswith("Total (") and "Time" not in label for label in header[:1]):
            tables["sizes"].append({"kind": kind, "bytes": round(total)})
            return
        tables["copies"].append(
            {
                "kind": kind,
                "count": round(count),
                "bytes": None,
                "time_ns": round(total),
                "exposed_ns": None,
                "pageable_count": 0,
            }
        )
    elif "Num Calls" in values:
        middle = figures.get("med")
        call = {"name": clean(name), "count": round(count), "total_ns": round(total), "blocking": "Synchronize" in name}
        tables["api"].append({**call, "median_ns": round(middle) if middle is not None else None})
    else:
        full = clean(name)
        tables["kernels"].append(
            {
                "key": key(full), "name": full, "short_name": short(full), "origin": origin(full, ()), "count": round(count),
                "total_ns": round(total), "median_ns": _rounded(figures.get("med")), "min_ns": _rounded(figures.get("min")),
                "max_ns": _rounded(figures.get("max")), "share_pct": None, "counters": None,
            }
        )  # fmt: skip


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


def _kind(name: str) -> str:
    if name == _COPY_MEMSET:
        return "memset"
    match = _COPY.match(name)
    if not match or not match[2]:
        return "unknown"
    unified = "UVM_" if "Unified" in name else ""
    kind = f"{match[2].upper()}2{match[3].upper()}"
    return unified + ("P2P" if "P" in kind else kind)
