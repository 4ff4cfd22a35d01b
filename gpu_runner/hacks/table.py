"""The confusion table over the gallery's results, for people and as one JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_runner.contracts import DeviceInfo, HackClass
from gpu_runner.hacks.record import Record, Run
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
    lines += ["", f"{len(bad)} not judged as they should be:", ""] if bad else []
    lines += [
        f"- {r.name}: {r.outcome} ({r.verdict}, named {r.named or 'nothing'}, {r.speed or 'untimed'}). {r.said}" for r in bad
    ]
    return "\n".join(lines)


def about(runs: Sequence[Run]) -> str:
    """Where, with what, how long and when, as one line; a device is named once however many runs it did."""
    places = list(dict.fromkeys(place(run.device) for run in runs))
    days = sorted({run.at[:10] for run in runs})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    seconds = sum(run.wall_s for run in runs)
    how = f"`{runs[0].command}`" if len(runs) == 1 else f"{len(runs)} runs, the last `{max(runs, key=lambda r: r.at).command}`"
    protocols = ", ".join(dict.fromkeys(run.protocol for run in runs))
    return f"{'; '.join(places)}, protocol {protocols}, {seconds:.0f} s. {when}, {how}"


def place(device: DeviceInfo) -> str:
    """A device with what its results depend on: "Target cpu: AMD EPYC, 2 cores, torch 2.13.0+cpu, bubblewrap"."""
    facts = [
        device.name, f"{device.cores} cores" if device.cores else "", f"driver {device.driver}" if device.driver else "",
        f"torch {device.torch}", device.runtime, device.sandbox,
    ]  # fmt: skip
    return f"Target {device.target}: {', '.join(filter(None, facts))}"


def page(record: Record, total: int) -> str:
    """The section of the documentation. `total`: how many programs the gallery has for this kind of device."""
    left = total - len(record.results)
    lines = [markdown(record.results), "", f"{about(list(record.runs.values()))}."]
    if left:
        lines += ["", f"{left} of {total} programs have no recorded result."]
    return "\n".join(lines)


def _total(counted: dict[str, Any], outcome: str) -> int:
    return sum(counts[outcome] for counts in counted["by_class"].values())
