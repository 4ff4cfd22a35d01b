"""The flame tree of a summary as a speedscope file (sampled, nanoseconds)."""

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
