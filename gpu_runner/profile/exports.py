"""A summary for other viewers: its flame tree for speedscope, its typical iteration for Perfetto.

Both are made of the summary, so they hold no more of the machine than it does. The report itself stays where it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_STACKS = 20_000


def speedscope(summary: Mapping[str, Any], title: str = "") -> dict[str, Any]:
    """One sampled profile: a stack for each node's own time. Empty where the summary has no tree."""
    frames: dict[str, int] = {}
    samples: list[list[int]] = []
    weights: list[int] = []

    def visit(node: Mapping[str, Any], above: list[int]) -> None:
        name = str(node.get("full_name") or node["name"])
        here = [*above, frames.setdefault(name, len(frames))]
        own = node["value_ns"] - sum(child["value_ns"] for child in node["children"])
        if own > 0 and len(samples) < MAX_STACKS:
            samples.append(here)
            weights.append(own)
        for child in node["children"]:
            visit(child, here)

    if summary.get("tree"):
        visit(summary["tree"], [])
    name = title or f"{summary['target']['role']}, an average iteration"
    return {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "stitchweb",
        "name": name,
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": frame} for frame in frames]},
        "profiles": [
            {
                "type": "sampled", "name": name, "unit": "nanoseconds", "startValue": 0, "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
        ],
    }  # fmt: skip


def chrome_trace(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The typical iteration as a chrome trace (ui.perfetto.dev opens it): calls, each stream, and the gaps by cause."""
    line = summary.get("timeline") or {}
    events: list[dict[str, Any]] = []

    def lane(process: int, thread: int, name: str, rows: list[tuple[str, int, int, dict[str, Any]]]) -> None:
        events.append({"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}})
        for label, start, ns, args in rows:
            events.append(
                {"ph": "X", "name": label, "pid": process, "tid": thread, "ts": start / 1000, "dur": ns / 1000, "args": args}
            )

    for number, name in ((1, "host"), (2, "GPU")):
        events.append({"ph": "M", "name": "process_name", "pid": number, "args": {"name": name}})
    lane(1, 1, "calls", [(c["name"], c["start_ns"], c["ns"], {"waits": c["blocking"]}) for c in line.get("calls", ())])
    for number, stream in enumerate(line.get("streams", ())):
        rows = [(r["name"], r["start_ns"], r["ns"], {"kind": r["kind"]}) for r in stream["rows"]]
        lane(2, number + 1, f"stream {stream['stream']}", rows)
    lane(2, 99, "idle", [(g["cause"], g["start_ns"], g["ns"], {"before": g["before"]}) for g in line.get("gaps", ())])
    return {"displayTimeUnit": "ns", "traceEvents": events}
