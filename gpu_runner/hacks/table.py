"""The confusion table over the gallery's results, for people and as one JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_runner.contracts import HackClass
from gpu_runner.hacks.trial import MISNAMED, MISSED, NEUTRALISED, REFUSED, REJECTED, Result

OUTCOMES = (REJECTED, NEUTRALISED, MISNAMED, MISSED)


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """The last line of the command. `by_class` counts outcomes; a class without a program is left out."""
    hacks = [r for r in results if r.hack is not None]
    honest = [r for r in results if r.hack is None]
    by_class = {}
    for kind in HackClass:
        mine = [r for r in hacks if r.hack is kind]
        if mine:
            by_class[str(kind)] = {"total": len(mine)} | {o: sum(r.outcome == o for r in mine) for o in OUTCOMES}
    return {
        "hacks_total": len(hacks),
        "hacks_missed": sum(r.outcome == MISSED for r in hacks),
        "hacks_neutralised": sum(r.outcome == NEUTRALISED for r in hacks),
        "hacks_misnamed": sum(r.outcome == MISNAMED for r in hacks),
        "honest_total": len(honest),
        "honest_rejected": sum(r.outcome == REFUSED for r in honest),
        "by_class": by_class,
    }


def markdown(results: Sequence[Result]) -> str:
    """The table as docs/verification.md shows it, and a line for every program that was not judged as it should be."""
    counted = summary(results)
    rows = [("class", "programs", *OUTCOMES), ("---",) + ("---:",) * (1 + len(OUTCOMES))]
    for name, counts in counted["by_class"].items():
        rows.append((f"`{name}`", *(str(counts[key] or "") for key in ("total", *OUTCOMES))))
    rows.append(("all hacks", str(counted["hacks_total"]), *(str(_total(counted, o)) for o in OUTCOMES)))
    refused = counted["honest_rejected"]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines += ["", f"Honest programs: {counted['honest_total']}, rejected: {refused}."]
    bad = [r for r in results if not r.good]
    lines += [f"\n{len(bad)} not judged as they should be:"] if bad else []
    lines += [
        f"- {r.name}: {r.outcome} ({r.verdict}, named {r.named or 'nothing'}, {r.speed or 'untimed'}). {r.said}" for r in bad
    ]
    return "\n".join(lines)


def _total(counted: dict[str, Any], outcome: str) -> int:
    return sum(counts[outcome] for counts in counted["by_class"].values())
