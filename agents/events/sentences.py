"""What a run does at this moment, said to a person."""

from __future__ import annotations

from collections.abc import Iterable

from agents.events.shrink import cut
from agents.events.words import LaneLine
from agents.loop import next_step, open_steps
from agents.state import State, Step, Stop

_WORK = {"code": "writing", "build": "building", "check": "checking", "time": "timing"}


def stream_of(name: str, lane: int | None) -> str:
    """The stream of a log that a step writes to: one per lane where several are under way."""
    return name if lane is None else f"{name} {lane}"


def doing_sentence(state: State) -> str:
    """What the run does now, for a person; empty when it does nothing."""
    step = next_step(state)
    if isinstance(step, Stop):
        return ""
    if state.round is not None:
        return cut(f"Round {state.round.number}: {_together(open_steps(state))}", 200)
    return _sentence(step, state)


def lane_lines(state: State) -> tuple[LaneLine, ...]:
    """What each lane of the round under way does, those that are over apart; none without a round or while the run rests."""
    if state.round is None:
        return ()
    status = {lane.number: lane.status for lane in state.round.lanes}
    return tuple(
        LaneLine(
            number=step.lane,
            status=status[step.lane],
            doing=_sentence(step, state),
            candidate=None if step.kind == "code" else step.candidate,
        )
        for step in open_steps(state)
        if step.lane is not None
    )


def _together(steps: Iterable[Step]) -> str:
    """ "writing 2 programs, checking c3 and c4, timing c5"."""
    parts = []
    for kind, work in _WORK.items():
        same = [step for step in steps if step.kind == kind]
        if kind == "code" and same:
            parts.append(f"{work} {len(same)} program{'' if len(same) == 1 else 's'}")
        elif same:
            parts.append(f"{work} {' and '.join(str(step.candidate) for step in same)}")
    return ", ".join(parts)


def _sentence(step: Step, state: State) -> str:
    name = step.candidate or "the reference"
    match step.kind:
        case "analyse":
            return "Analysing the program"
        case "plan":
            return "Making a new plan" if state.plans else "Planning"
        case "code":
            todo = state.todo(step.todo) if step.todo else None
            again = f", after {step.candidate}" if step.candidate else ""
            return cut(f"Writing a program for “{todo.title}”{again}" if todo else "Writing a program", 200)
        case "build":
            return f"Building {name}"
        case "check":
            return f"Checking {name}" + (" under the full protocol" if state.stop_cause else "")
        case "time":
            return f"Timing {name} against eager"
        case "confirm":
            return f"Timing {name} against every baseline" if step.candidate else "Timing every baseline"
        case "profile":
            return f"Profiling {name}"
        case "decide":
            return f"Judging {name}"
