"""What the machine was like around each round of a timing, and which rounds say little for it. Data and pure rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

STOLEN_SHARE = 0.1  # of a core; ticks are long, and one alone proves nothing
SLOWED = {0x08: "hardware slowdown", 0x20: "heat, by the driver", 0x40: "heat, by the card", 0x80: "power brake"}  # NVML's bits


@dataclass
class Reading:
    """The machine at one moment; None where it does not say. Clocks in MHz; counts are since its start.

    `throttles`: of the processor, for heat. `stolen_ticks`: what the hypervisor gave to others while we wanted to run, of
    `ticks` of all cores. `slowed_by`: NVML's bits of why the card's clocks are what they are. `strangers`: processes that
    had the card at work lately and are not ours.
    """

    cpu_mhz: float | None = None
    governor: str = ""
    throttles: int | None = None
    stolen_ticks: int | None = None
    ticks: int | None = None
    sm_mhz: int | None = None
    memory_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    slowed_by: int | None = None
    strangers: int | None = None


@dataclass
class Conditions:
    """The machine before and after one round. One that was `kept` is in the samples, any other was measured again."""

    before: Reading
    after: Reading
    kept: bool = True


def spoilt(conditions: Conditions, cores: int) -> str:
    """Why a round says little about the programs, in a few words; empty when nothing was seen.

    A power cap alone is no reason: a program that draws so much power meets it in every round, and everywhere.
    """
    before, after = conditions.before, conditions.after
    bits = (before.slowed_by or 0) | (after.slowed_by or 0)
    if reasons := [word for bit, word in SLOWED.items() if bits & bit]:
        return f"the card was slowed down ({', '.join(reasons)})"
    if after.strangers:
        return "other processes used the card"
    if (after.throttles or 0) > (before.throttles or 0):
        return "the processor was slowed down by heat"
    stolen = (after.stolen_ticks or 0) - (before.stolen_ticks or 0)
    if stolen > 1 and stolen * cores > STOLEN_SHARE * max(1, (after.ticks or 0) - (before.ticks or 0)):
        return "the hypervisor gave cores to others"
    return ""


def _rise(before: int | None, after: int | None) -> int | None:
    """How far a count rose; None where either was not told."""
    return None if before is None or after is None else after - before


def conditions_facts(conditions: list[Conditions], cores: int) -> dict[str, Any]:
    """The conditions as numbers for people: lowest and highest of each, over all rounds that were kept."""
    kept = [c for c in conditions if c.kept]
    if not kept:
        return {}
    readings = [reading for c in kept for reading in (c.before, c.after)]
    facts: dict[str, Any] = {"rounds_retaken": len(conditions) - len(kept)}
    for name in ("cpu_mhz", "sm_mhz", "memory_mhz", "temperature_c", "power_w", "strangers"):
        values = [value for reading in readings if (value := getattr(reading, name)) is not None]
        facts[name] = [min(values), max(values)] if values else None
    first, last = kept[0].before, kept[-1].after
    if (stolen := _rise(first.stolen_ticks, last.stolen_ticks)) is not None and (ticks := _rise(first.ticks, last.ticks)):
        facts["stolen_share"] = round(cores * stolen / ticks, 4)
    bits = 0
    for reading in readings:
        bits |= reading.slowed_by or 0
    known = any(reading.slowed_by is not None for reading in readings)
    throttled = _rise(first.throttles, last.throttles)
    facts |= {"governor": first.governor or None, "slowed_by": hex(bits) if known else None, "cpu_throttles": throttled}
    facts["rounds_spoilt"] = [reason for c in kept if (reason := spoilt(c, cores))]
    return facts
