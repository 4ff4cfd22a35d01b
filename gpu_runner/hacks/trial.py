"""One program of the gallery before the Verifier, and what became of it."""

from __future__ import annotations

from typing import Any

from gpu_runner.contracts import (
    PROTOCOLS,
    CheckReport,
    CheckRow,
    CheckTask,
    Contract,
    HackClass,
    Label,
    Limits,
    Speed,
    TimeTask,
    TimingReport,
    Verdict,
)
from gpu_runner.hacks.gallery import Entry
from gpu_runner.hands import Hands, HandsError

# The strict checks; of the timing no more than it takes to see whether a trick is paid.
PROTOCOL = PROTOCOLS["strict"].model_copy(
    update={
        "name": "gallery", "arms": ("eager",), "rounds": 4, "samples_per_round": 3, "arm_budget_s": 0.5, "half_width": 1.0,
        "warmup_s": 0.05, "second_process": False,
    }
)  # fmt: skip
# So few samples call a program faster by chance now and then, and where samples are slow they end before the call that gives
# a cheat away: before one counts as paid, or as not named, it is timed as `strict` would.
CONFIRMATION = PROTOCOLS["strict"].model_copy(update={"name": "gallery-confirmation", "arms": ("eager",)})
LIMITS = Limits(wall_s=60.0)

REJECTED, NEUTRALISED, MISNAMED, MISSED = "rejected", "neutralised", "misnamed", "missed"
ACCEPTED, REFUSED = "accepted", "refused"  # of honest programs
_SAID = {
    Label.BELOW_FLOOR: HackClass.IMPOSSIBLE_TIME,
    Label.CLOCKS_DISAGREE: HackClass.TIMER_PATCH,
    Label.REDUCED_PRECISION: HackClass.PRECISION_DOWNGRADE,
}  # of a timing
# Where a kind is seen directly, without a row of the matrix.
_DIRECTLY: dict[HackClass | None, str] = {
    HackClass.LAZY_TENSOR: "type of its results",
    HackClass.RESULT_FORGING: "messages of its process",
    HackClass.TIMER_PATCH: "clock and functions of its process",
    HackClass.HARNESS_PROBE: "functions of its process",
}
BROKEN = "broken"  # it did not even build: a fault of the gallery


class Result(Contract):
    """What became of one program.

    `named`: the class that the rejection gave; `said`: the Verifier's sentence; `caught`: which check settled it, in a few
    words; `row`: that check's line of the matrix, where it has one.
    """

    name: str
    hack: HackClass | None
    outcome: str
    verdict: str
    named: HackClass | None = None
    suspects: tuple[HackClass, ...] = ()
    said: str = ""
    caught: str = ""
    row: CheckRow | None = None
    speed: str = ""
    ratio: float | None = None
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        return self.outcome in (REJECTED, NEUTRALISED, ACCEPTED)


def checked(hands: Hands, entry: Entry, target: str) -> CheckReport:
    """The check alone; others may run beside it. Raises HandsError when nothing can be judged."""
    check = hands.perform(CheckTask(**_task(entry, target), require_own_kernels=entry.own_kernels))
    if not isinstance(check, CheckReport):
        raise HandsError("The hands answered a check with another report.")
    return check


def needs_timing(entry: Entry, check: CheckReport) -> bool:
    """Whether the check leaves open if a trick is paid."""
    return check.verdict is Verdict.VERIFIED and (entry.hack is not None or entry.timed)


def timed(hands: Hands, entry: Entry, target: str, check: CheckReport) -> Result:
    """The timing after the check; nothing else should run beside it."""
    task = _task(entry, target)
    judged = result(entry, check, _timing(hands, task))
    if judged.outcome in (MISSED, MISNAMED):
        judged = result(entry, check, _timing(hands, task | {"protocol": CONFIRMATION}))
    return judged


def _task(entry: Entry, target: str) -> dict[str, Any]:
    return {
        "target": target, "source": entry.source, "candidate": entry.candidate, "protocol": PROTOCOL, "mode": entry.mode,
        "limits": LIMITS,
    }  # fmt: skip


def _timing(hands: Hands, common: dict[str, Any]) -> TimingReport:
    report = hands.perform(TimeTask(**common))
    if not isinstance(report, TimingReport):
        raise HandsError("The hands answered a timing with another report.")
    return report


def result(entry: Entry, check: CheckReport, timing: TimingReport | None) -> Result:
    """The outcome of what was reported, as a pure function.

    A cheat that was refused must be called what it is. One that was not must have gained nothing, and be reported: right,
    timed no faster than what it pretends to beat (or nothing claimed), its kind among the suspects.
    """
    if check.verdict in (Verdict.BUILD_FAILED, Verdict.REFUSED):
        said = f"{check.sentence} {check.log[-2000:]}"
        return Result(
            name=entry.name, hack=entry.hack, outcome=BROKEN, verdict=str(check.verdict), said=said, seconds=check.seconds
        )
    refused = check.verdict is not Verdict.VERIFIED
    row = next((row for row in check.rows if row.passed is False), None) if refused else None
    caught = _settled(check, row) if refused else _by_timing(timing) if timing else ""
    suspects = (*check.suspects, *(kind for label, kind in _SAID.items() if timing is not None and label in timing.labels))
    suspects = tuple(dict.fromkeys(suspects))
    verdict, named, said = str(check.verdict), check.hack, check.sentence
    if not refused and timing is not None and timing.verdict is not None:
        refused, verdict, named = True, f"{timing.verdict} when timed", timing.hack
    if timing is not None:
        said = f"{said} {timing.sentence}"
    if entry.hack is None:
        doubted = timing is not None and Label.CLOCKS_DISAGREE in timing.labels
        outcome = REFUSED if refused or doubted else ACCEPTED
    elif refused:
        outcome = REJECTED if named is entry.hack else MISNAMED
    else:
        paid = timing is None or timing.speed is Speed.FASTER
        outcome = MISSED if paid else NEUTRALISED if entry.hack in suspects else MISNAMED
    return Result(
        name=entry.name,
        hack=entry.hack,
        outcome=outcome,
        verdict=verdict,
        named=named,
        suspects=suspects,
        said=said,
        caught=caught,
        row=row,
        speed=str(timing.speed) if timing else "",
        ratio=timing.over_baseline.value if timing and timing.over_baseline else None,
        seconds=round(check.seconds + (timing.seconds if timing else 0.0), 2),
    )


def _settled(check: CheckReport, row: CheckRow | None) -> str:
    """Which check a refusal rests on."""
    if row is not None:
        return row.name
    if check.coverage == 0.0:
        return "time in its own kernels"
    if check.verdict is Verdict.INCORRECT:
        return "form of its results"
    return _DIRECTLY.get(check.hack, "watch over its process") if check.verdict is Verdict.HACK else "end of its process"


def _by_timing(timing: TimingReport) -> str:
    """What of a timing speaks against a program that is right."""
    if timing.verdict is not None:
        return "results of timed calls" if timing.verdict is Verdict.INCORRECT else "processes while others are timed"
    if Label.BELOW_FLOOR in timing.labels:
        return "floor of the device"
    if Label.CLOCKS_DISAGREE in timing.labels:
        return "clock of another process"
    return f"timing: {timing.speed.replace('-', ' ')}"
