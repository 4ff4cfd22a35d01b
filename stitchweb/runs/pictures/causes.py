"""What the GPU's time went into: one bar for each side, kernels first, then copies, then idle time by its cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.safestring import SafeString

from stitchweb.core.numbers import duration
from stitchweb.runs.pictures.part import (
    PARTS,
    Picture,
    anchor,
    cell,
    fades,
    hatches,
    headline,
    per_cent,
    positive,
    rows_of,
    wrap,
)

BAR = 26
HEAD = 18


def parts(summary: Mapping[str, Any]) -> dict[str, float]:
    """Nanoseconds per iteration by part of PARTS; empty without a GPU section."""
    gpu = summary.get("gpu")
    if not isinstance(gpu, Mapping):
        return {}
    target = summary.get("target")
    count = max(1.0, positive(target.get("iterations")) if isinstance(target, Mapping) else 0.0)
    kernels, copies = positive(gpu.get("kernel_busy_ns")), positive(gpu.get("copy_exposed_ns"))
    idle = gpu.get("idle_by_cause_ns")
    found = {"kernels": kernels, "copies": copies, "other": max(0.0, positive(gpu.get("busy_ns")) - kernels - copies)}
    found |= {cause: positive(idle.get(cause)) for cause in PARTS if cause not in found} if isinstance(idle, Mapping) else {}
    return {part: ns / count for part, ns in found.items()}


def causes(sides: Sequence[tuple[str, Mapping[str, Any]]], *, prefix: str) -> Picture | None:
    """`sides`: (name, summary), reference first. Bars share one scale. None where no side has GPU times.

    Only the last side's parts carry the anchors that evidence links to.
    """
    shown = [(name, found) for name, summary in sides if sum((found := parts(summary)).values()) > 0]
    if not shown:
        return None
    scale = max(sum(found.values()) for _, found in shown)
    drawn: list[SafeString] = []
    rows = []
    y = 0.0
    for number, (name, found) in enumerate(shown):
        whole = sum(found.values())
        idle = sum(ns for part, ns in found.items() if part not in ("kernels", "copies", "other"))
        drawn.append(headline(name, f"{duration(whole / 1e6)}, idle {per_cent(100 * idle / whole, 0)}", y + 1))
        y += HEAD
        left = 0.0
        for part, (klass, word) in PARTS.items():
            ns = found.get(part, 0.0)
            if not ns:
                continue
            width, share = 100 * ns / scale, 100 * ns / whole
            label = f"{part} {per_cent(share, 0)}" if width >= 12 else part if width >= 7 else ""
            ident = anchor(prefix, f"causes:{part}") if number == len(shown) - 1 else ""
            title = f"{name}: {word}, {duration(ns / 1e6)}, {per_cent(share)}"
            drawn.append(cell(prefix, klass, left, width, y, BAR, label, title=title, ident=ident))
            rows.append((name, word, duration(ns / 1e6), per_cent(share)))
            left += width
        y += BAR + 10
    used = [part for part in PARTS if any(found.get(part) for _, found in shown)]
    said = "What the GPU's time went into. " + "; ".join(f"{side}: {word} {share}" for side, word, _, share in rows)
    return Picture(
        "causes", "What the GPU's time of an iteration went into",
        wrap(prefix, "causes", y - 8, said, hatches(prefix), fades(prefix, (PARTS[p][0] for p in used)), *drawn),
        ("Program", "Part", "Time each iteration", "Share"), rows_of(rows),
        legend=tuple(PARTS[part] for part in used),
    )  # fmt: skip
