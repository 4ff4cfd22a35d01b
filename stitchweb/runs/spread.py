"""A profile spread out: the pictures and tables of one summary, or of two side by side, and where evidence is seen in them.

Summaries follow `stitchweb.profile/1`. They come from runners and from reports of other people: any field may be missing, null
or of another kind, and then what rests on it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_runner.profile.compare import compare
from stitchweb.core.numbers import duration, grouped
from stitchweb.runs import pictures
from stitchweb.runs.evidence import findings
from stitchweb.runs.pictures.part import number, per_cent, positive
from stitchweb.runs.pictures.roof import Point

SCHEMA = "stitchweb.profile/1"
MAX_LIMITS = 6  # kernels whose limits are drawn
WISHES = ("focus", "was", "sort")  # a reader's choices: the node of either flame view, the order of the kernel table
_TOOLS = {"torch_profiler": "torch.profiler", "nsys": "Nsight Systems", "nsys_stats": "nsys stats", "ncu": "Nsight Compute"}
_BASES = {
    "annotation": "named iterations", "nvtx": "NVTX ranges", "first_to_last": "the whole report with its start-up",
    "sums": "sums of the whole report", "launches": "single launches",
}  # fmt: skip
_ROOFS = {"memory": "memory's ceiling", "compute": "arithmetic's ceiling"}
_FIGURES = {
    "gpu": "GPU time", "kernels": "kernels", "counters": "counters of kernels", "cpu": "use of the processor",
    "ops": "operations",
}  # fmt: skip
Address = Callable[..., str]


@dataclass(frozen=True)
class Shown:
    """A picture with the prefix of its ids."""

    prefix: str
    picture: pictures.Picture


@dataclass(frozen=True)
class Limits:
    """One kernel: how near it is to its limits, and what it waits for."""

    id: str
    key: str
    name: str
    sentence: str
    pictures: tuple[Shown, ...]


def known(summary: Any) -> Mapping[str, Any] | None:
    """The summary when it is one of the schema that is drawn here."""
    return summary if isinstance(summary, Mapping) and summary.get("schema") == SCHEMA else None


def compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any] | None:
    """`gpu_runner.profile.compare` of two summaries; None where one lacks what a comparison needs."""
    try:
        return compare(before, after)
    except (KeyError, TypeError, AttributeError, ValueError):
        return None


def spread(
    summary: Mapping[str, Any], *, prefix: str, name: str, address: Address, before: Mapping[str, Any] | None = None,
    before_name: str = "reference", wishes: Mapping[str, str] | None = None, points: Sequence[Point] = (),
) -> dict[str, Any]:  # fmt: skip
    """What `runs/panels/spread.html` shows of a profile.

    `prefix`: of all ids; `address(anchor, **wishes)`: this page with other choices; `points`: of the roofline where no kernel
    has counters; `before`: the summary that it is held against.
    """
    asked = {key: value[:200] for key, value in (wishes or {}).items() if key in WISHES}

    def wish(anchor: str, **changed: str) -> str:
        return address(anchor, **{**asked, **changed})

    changed = compared(before, summary) if before is not None else None
    limits = _limits(summary, prefix)
    drawn = _drawn(summary, before, prefix, name, before_name, asked, wish, points)
    table = pictures.kernel_table(
        summary,
        prefix=prefix,
        sort=asked.get("sort", "-time"),
        link=lambda sort: wish(pictures.anchor(prefix, "kernels"), sort=sort),
        changes=(changed or {}).get("kernels", ()),
    )
    plain = pictures.plain_tables(summary, prefix=prefix)
    ids = _ids(drawn, limits) | {table.id, *(row.id for row in table.rows), *(t.id for t in plain)}
    told = findings(summary, lambda shown_in, kernel: _place(shown_in, kernel, prefix, limits, ids))
    return {
        "prefix": prefix,
        "first": told[0] if told else None,
        "others": told[1:],
        "drawn": drawn,
        "table": table,
        "changes": _changes(changed, prefix) if changed else None,
        "limits": [kernel for kernel in limits if len(kernel.pictures) > 1],
        "lone": [kernel for kernel in limits if len(kernel.pictures) == 1],
        "plain": plain,
        "facts": facts(summary),
        "unknown": _unknown(summary),
        "warnings": _warnings(summary),
    }


def _drawn(
    summary: Mapping[str, Any], before: Mapping[str, Any] | None, prefix: str, name: str, before_name: str,
    asked: Mapping[str, str], wish: Address, points: Sequence[Point],
) -> list[Shown]:  # fmt: skip
    sides = [(before_name, before)] if before is not None else []
    own_points = () if _counted(summary) else points
    was = f"{prefix}-was"
    trees = [s.get("tree") for s in (summary, before or {})]
    scale = max((v for t in trees if isinstance(t, Mapping) and (v := number(t.get("value_ns")))), default=None)
    same = ", same scale" if before is not None and not (asked.get("focus") or asked.get("was")) else ""
    flames = [
        (prefix, pictures.flame(
            trees[0], prefix=prefix, title=f"Where the time goes: {name}{same}", focus=asked.get("focus", ""), scale_ns=scale,
            link=lambda path: wish(f"{prefix}-flame", focus=path),
        )),
        (was, pictures.flame(
            trees[1], prefix=was, title=f"Where the time went: {before_name}{same}", focus=asked.get("was", ""), scale_ns=scale,
            link=lambda path: wish(f"{was}-flame", was=path),
        )),
    ]  # fmt: skip
    found = [
        (prefix, pictures.causes([*sides, (name, summary)], prefix=prefix)),
        *flames,
        (prefix, pictures.timeline(_map(summary.get("timeline")), prefix=prefix)),
        (prefix, pictures.roof(summary, prefix=prefix, before=None if own_points else before, points=own_points)),
    ]
    return [Shown(ident, picture) for ident, picture in found if picture is not None]


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _kernels(summary: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    kernels = summary.get("kernels")
    return [k for k in kernels if isinstance(k, Mapping)] if isinstance(kernels, list) else []


def _counted(summary: Mapping[str, Any]) -> bool:
    """Whether a kernel has a place of its own under the roofs."""
    counters = [_map(kernel.get("counters")) for kernel in _kernels(summary)]
    return any(positive(c.get("intensity")) and positive(c.get("flop_rate")) for c in counters)


def _limits(summary: Mapping[str, Any], prefix: str) -> list[Limits]:
    found = []
    for number_, kernel in enumerate(k for k in _kernels(summary) if _map(k.get("counters"))):
        own = f"{prefix}-k{number_}"
        three = [draw(kernel, prefix=own) for draw in (pictures.speed_of_light, pictures.occupancy, pictures.stalls)]
        shown = tuple(Shown(own, picture) for picture in three if picture is not None)
        if shown:
            title = str(kernel.get("short_name") or kernel.get("name") or "kernel")
            sentence = str(_map(kernel.get("verdict")).get("sentence") or "")
            found.append(Limits(own, str(kernel.get("key")), title, sentence, shown))
    return found[:MAX_LIMITS]


def _ids(drawn: Sequence[Shown], limits: Sequence[Limits]) -> set[str]:
    """Every id that the pictures have."""
    every = [*drawn, *(shown for kernel in limits for shown in kernel.pictures)]
    return {ident for shown in every for ident in re.findall(r' id="([^"]+)"', shown.picture.svg)}


def _place(shown_in: str, kernel: str, prefix: str, limits: Sequence[Limits], ids: set[str]) -> str:
    """The address of what evidence, of the whole or of a kernel, is shown in: the part, else its picture, else nothing."""
    if not shown_in:
        return ""
    tries = [pictures.anchor(own, shown_in) for own in (prefix, *(one.id for one in limits if one.key == kernel))]
    tries.append(pictures.anchor(prefix, shown_in.partition(":")[0]))
    return next((f"#{ident}" for ident in tries if ident in ids), "")


def _changes(changed: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Both sides in one line each, and the rows that changed, kernels and operations."""
    totals = [changed["totals"][side] for side in ("reference", "candidate")]
    rows = [
        ("Time of kernels", *(duration(t["kernel_ns"] / 1e6) for t in totals)),
        ("Launches", *(grouped(t["launches"]) for t in totals)),
        ("In own kernels", *(per_cent(t["own_share_pct"]) for t in totals)),
    ]
    shown = [
        pictures.changes(changed[part], prefix=prefix, name=f"changed-{part}", title=title)
        for part, title in (("kernels", "Kernel by kernel"), ("ops", "Operation by operation"))
    ]
    return {
        "totals": rows,
        "pictures": [Shown(prefix, picture) for picture in shown if picture is not None],
        "gone": sum(row["change"] == "gone" for row in changed["kernels"]),
        "new": sum(row["change"] == "new" for row in changed["kernels"]),
        "per_iteration": changed["per_iteration"],
    }


def facts(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What it was measured with, name and value."""
    source, device, window, target = (_map(summary.get(key)) for key in ("source", "device", "window", "target"))
    tool = " ".join(str(v) for v in (_TOOLS.get(str(source.get("tool")), source.get("tool")), source.get("tool_version")) if v)
    wall, count = number(window.get("wall_ns")), number(target.get("iterations"))
    roof = _map(summary.get("roof"))
    least, reached = positive(roof.get("least_ns")), number(roof.get("reached_pct"))
    limit = f"{duration(least / 1e6)} by {_ROOFS.get(str(roof.get('bound')), 'the ceilings')}" if least else ""
    found = [
        ("measured with", tool),
        ("on", str(device.get("name") or "")),
        ("range", _BASES.get(str(window.get("basis")), "") if wall or window.get("basis") == "launches" else ""),
        ("wall time", duration(wall / 1e6) if wall else ""),
        ("iterations", grouped(count) if count else ""),
        ("least time", f"{limit}, {per_cent(reached, 0)} reached" if limit and reached is not None else limit),
    ]
    return [(name, value) for name, value in found if value]


def _unknown(summary: Mapping[str, Any]) -> list[str]:
    """What the profile does not hold, with the reason; a counter that this kind of device never has is not missed."""
    figures = _map(summary.get("figures"))
    kind = _map(summary.get("device")).get("kind")
    wanted = [n for n in _FIGURES if not (kind == "cpu" and n in ("gpu", "counters")) and not (kind == "gpu" and n == "cpu")]
    rows = [(name, _map(figures.get(name))) for name in wanted]
    told = [
        f"{_FIGURES[name]}: {row.get('reason') or 'not measured'}" for name, row in rows if row.get("status") == "unavailable"
    ]
    tools = summary.get("collectors")
    for tool in [t for t in tools if isinstance(t, Mapping)] if isinstance(tools, list) else ():
        if tool.get("status") != "measured":
            name = _TOOLS.get(str(tool.get("tool")), str(tool.get("tool")))
            told.append(f"{name}: {tool.get('sentence') or tool.get('reason') or 'not measured'}")
    return told[:12]


def _warnings(summary: Mapping[str, Any]) -> list[str]:
    warnings = _map(summary.get("source")).get("warnings")
    return [str(w) for w in warnings[:20]] if isinstance(warnings, list) else []
