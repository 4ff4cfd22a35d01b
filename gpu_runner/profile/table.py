"""CSV as profilers print it: other lines before, between and after, numbers with or without grouping, quoted names.

Nothing is split on commas by hand, and text of an unknown shape is no number.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from gpu_runner.profile.jsonstream import texts
from gpu_runner.profile.limits import Meter, UnreadableProfile

MAX_LINE = 1 << 20
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+),\d+", re.ASCII)
_PLAIN = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_SCALE = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
}  # fmt: skip
_UNIT = re.compile(r"([numkKMGT]?)(byte|second|s|hz|Hz|B)(/.*)?")


def number(text: str) -> float | None:
    """The number that a cell holds: 1024, "1,024", "1.024,5", 1e3. None for anything else, the empty cell and nan included."""
    text = text.strip().replace("\u202f", "").replace("\u00a0", "")
    if len(text) > 60:
        return None
    if _GROUPED.fullmatch(text):
        return float(text.replace(",", ""))
    if _PLAIN.fullmatch(text):
        return float(text) if float(text) not in (float("inf"), float("-inf")) else None
    if _DECIMAL_COMMA.fullmatch(text):
        return float(text.replace(".", "").replace(",", "."))
    return None


def base(value: float, unit: str) -> tuple[float, str]:
    """A value in base units (byte, ns, hz, byte/s), whatever prefix it was printed with."""
    if unit in ("nsecond", "ns"):
        return value, "ns"
    match = _UNIT.fullmatch(unit)
    if match is None:
        return value, unit
    scaled = value * _SCALE[match[1]]
    what = {"B": "byte", "second": "s", "Hz": "hz"}.get(match[2], match[2])
    rest = (match[3] or "").replace("/second", "/s")
    return (scaled * 1e9, "ns") if what == "s" and not rest else (scaled, what + rest)


def lines(path: Path, meter: Meter) -> Iterator[str]:
    """The file's lines without their ends; a line may be MAX_LINE characters long."""
    rest = ""
    for piece in texts(path, meter):
        parts = (rest + piece).splitlines(keepends=True)
        rest = parts.pop() if parts and not parts[-1].endswith(("\n", "\r")) else ""
        for part in parts:
            meter.event()
            yield part.rstrip("\r\n")
        if len(rest) > MAX_LINE:
            raise UnreadableProfile("A line of the file is longer than 1 MB: it is not a profiler's CSV.")
    if rest:
        yield rest


def cells(line: str) -> list[str]:
    """The cells of one line; none where it is no CSV."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []
