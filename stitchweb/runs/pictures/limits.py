"""How near one kernel is to its limits: both speeds of light, what limits its occupancy, what its warps wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from stitchweb.core.numbers import sig
from stitchweb.runs.charts.axis import pct
from stitchweb.runs.pictures.part import Picture, anchor, number, per_cent, positive, rows_of, wrap

LINE = 34
MAX_STALLS = 9
_RESOURCES = {
    "registers": "registers", "shared_mem": "shared memory", "warps": "warp slots", "blocks": "block slots",
    "barriers": "barriers",
}  # fmt: skip
_BENIGN = {"selected": "issuing", "not_selected": "ready, not chosen"}
_WAITS = {
    "long_scoreboard": "global or local loads", "short_scoreboard": "shared memory", "mio_throttle": "shared memory queue",
    "lg_throttle": "global access queue", "tex_throttle": "texture queue", "math_pipe_throttle": "arithmetic pipe",
    "barrier": "barrier", "membar": "memory fence", "wait": "fixed latency", "dispatch_stall": "dispatcher", "drain": "stores to drain",
    "imc_miss": "constant cache", "branch_resolving": "branch", "no_instruction": "instruction cache", "sleeping": "sleep",
    "gmma": "matrix operation", "misc": "other",
}  # fmt: skip


def _bars(
    items: Sequence[tuple[str, str, float, str, str, str]], marks: Sequence[tuple[float, str]] = (), top: float = 0.0
) -> tuple[list[SafeString], float]:
    """Rows of a name, a reading and a bar below them: (name, reading, percent, class, title, id)."""
    drawn: list[SafeString] = []
    height = top + LINE * len(items)
    drawn += [
        format_html('<line class="limit" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>', pct(at), top, height - 8) for at, _ in marks
    ]
    drawn += [
        format_html(
            '<text class="lim" x="{}" y="{}" text-anchor="{}">{}</text>',
            pct(at),
            height + 5,
            "end" if at > 90 else "middle",
            word,
        )
        for at, word in marks
    ]
    y = top
    for name, reading, share, klass, title, ident in items:
        drawn.append(
            format_html(
                '<g{}><title>{}</title><text class="hi" y="{}">{}</text><text x="100%" y="{}" text-anchor="end">{}</text>'
                '<rect class="lane" y="{}" width="100%" height="9"/><rect class="c {}" y="{}" width="{}" height="9"/></g>',
                format_html(' id="{}"', ident) if ident else "", title, y + 11, name, y + 11, reading, y + 15, klass, y + 15,
                pct(min(max(share, 0.0), 100.0)),
            )
        )  # fmt: skip
        y += LINE
    return drawn, height + (10 if marks else -4)


def _counters(kernel: Mapping[str, Any]) -> Mapping[str, Any]:
    counters = kernel.get("counters")
    return counters if isinstance(counters, Mapping) else {}


def _name(kernel: Mapping[str, Any]) -> str:
    return str(kernel.get("short_name") or kernel.get("name") or "kernel")


def speed_of_light(kernel: Mapping[str, Any], *, prefix: str) -> Picture | None:
    """Shares of the peaks of arithmetic and memory, with NVIDIA's lines at 60 and 80 %."""
    c = _counters(kernel)
    found = [
        (word, number(c.get(field)), klass)
        for word, field, klass in (
            ("Arithmetic", "compute_sol_pct", "b-main"), ("Memory", "memory_sol_pct", "b-main"), ("DRAM", "dram_pct", "b-part"),
            ("L2", "l2_pct", "b-part"), ("L1", "l1_pct", "b-part"), ("Tensor cores", "tensor_pct", "b-part"),
        )
    ]  # fmt: skip
    there = [(word, value, klass) for word, value, klass in found if value is not None]
    if not there:
        return None
    items = [
        (word, per_cent(value), value, klass, f"{word}: {per_cent(value)} of its peak",
         anchor(prefix, f"sol:{kernel.get('key')}") if word == "Arithmetic" else "")
        for word, value, klass in there
    ]  # fmt: skip
    drawn, height = _bars(items, ((60.0, "60 %"), (80.0, "80 %")))
    said = f"{_name(kernel)}, per cent of peak: " + ", ".join(f"{word} {per_cent(value)}" for word, value, _ in there)
    return Picture(
        "sol", "Per cent of peak" + (", an estimate from shapes" if c.get("status") == "estimated" else ""), wrap(prefix, f"sol {kernel.get('key')} bars", height, said, *drawn, css="bars"),
        ("Unit", "Of its peak"), rows_of((word, per_cent(value)) for word, value, _ in there),
        note="From 80 % on a kernel is bound by the unit; below 60 % of both it waits.",
    )  # fmt: skip


def occupancy(kernel: Mapping[str, Any], *, prefix: str) -> Picture | None:
    """Warps that are busy and that would fit, and how many blocks each resource lets onto a multiprocessor."""
    c = _counters(kernel)
    limits = c.get("occupancy_limits")
    limits = (
        {k: positive(v) for k, v in limits.items() if k in _RESOURCES and positive(v)} if isinstance(limits, Mapping) else {}
    )
    achieved, theoretical = number(c.get("occupancy_pct")), number(c.get("occupancy_theoretical_pct"))
    if not limits and achieved is None:
        return None
    items = []
    for word, value in (("Warps busy", achieved), ("Warps that fit", theoretical)):
        if value is not None:
            ident = anchor(prefix, f"occupancy:{kernel.get('key')}") if word == "Warps busy" else ""
            items.append(
                (
                    word,
                    per_cent(value),
                    value,
                    "b-main" if word == "Warps busy" else "b-part",
                    f"{word}: {per_cent(value)}",
                    ident,
                )
            )
    most = max(limits.values(), default=1.0)
    least = c.get("occupancy_limiter")
    for name, blocks in sorted(limits.items(), key=lambda pair: pair[1]):
        word = f"Blocks by {_RESOURCES[name]}" + (", the limit" if name == least else "")
        items.append(
            (
                word,
                sig(blocks),
                100 * blocks / most,
                "b-limit" if name == least else "b-part",
                f"{word}: {blocks:g} on a multiprocessor",
                "",
            )
        )
    drawn, height = _bars(items)
    said = f"Occupancy of {_name(kernel)}: " + ", ".join(f"{word} {reading}" for word, reading, *_ in items)
    return Picture(
        "occupancy", "Occupancy", wrap(prefix, f"occ {kernel.get('key')} bars", height, said, *drawn, css="bars"),
        ("What", "Reading"), rows_of((word, reading) for word, reading, *_ in items),
    )  # fmt: skip


def stalls(kernel: Mapping[str, Any], *, prefix: str) -> Picture | None:
    """What a warp's time between two instructions goes into. A breakdown of waiting, not a call tree."""
    found = _counters(kernel).get("stalls")
    rows = [s for s in found if isinstance(s, Mapping) and positive(s.get("share_pct"))] if isinstance(found, list) else []
    if not rows:
        return None
    items = []
    rest = 0.0
    for stall in sorted(rows, key=lambda s: -positive(s.get("share_pct"))):
        reason, share = str(stall.get("reason")), positive(stall.get("share_pct"))
        if len(items) >= MAX_STALLS:
            rest += share
            continue
        benign = reason in _BENIGN
        word = _BENIGN.get(reason) or f"waits for {_WAITS.get(reason, reason.replace('_', ' '))}"
        title = f"{word} ({reason}): {per_cent(share)}, {sig(stall.get('cycles'))} cycles each instruction"
        items.append(
            (word, per_cent(share), share, "b-calm" if benign else "b-main", title, anchor(prefix, f"stalls:{reason}"))
        )
    if rest:
        items.append(("other reasons", per_cent(rest), rest, "b-part", f"other reasons: {per_cent(rest)}", ""))
    drawn, height = _bars(items)
    said = f"A warp's time in {_name(kernel)}: " + ", ".join(f"{word} {reading}" for word, reading, *_ in items)
    return Picture(
        "stalls", "A warp's time between two instructions", wrap(prefix, f"stall {kernel.get('key')} bars", height, said, *drawn, css="bars"),
        ("What", "Share"), rows_of((word, reading) for word, reading, *_ in items),
    )  # fmt: skip
