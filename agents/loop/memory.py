"""What failed so far, in few words: what a Coder is told so that nobody pays for the same mistake twice. Bounded and pure."""

from __future__ import annotations

from collections.abc import Collection

from agents.state import State

MOST_REJECTED, MOST_LINES = 12, 24
LONGEST = 240  # characters of a line


def _cut(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def remembered(state: State, title: str, reason: str) -> State:
    """The state with one more answer that became no candidate. The same again counts as the newest."""
    line = _cut(f"“{title}”: {reason}" if title else reason, LONGEST)
    kept = [known for known in state.rejected if known != line]
    return state.model_copy(update={"rejected": (*kept, line)[-MOST_REJECTED:]})


def failures(state: State, without: Collection[str] = ()) -> tuple[str, ...]:
    """One line per cause, the newest last, at most MOST_LINES: candidates that failed alike stand in one line, then answers
    that became no candidate. `without`: candidates that are told of elsewhere."""
    causes: dict[tuple[str, str], list[str]] = {}
    for candidate in state.candidates:
        if candidate.id in without or candidate.status != "done" or candidate.verdict is None or candidate.verified:
            continue
        key = (str(candidate.verdict), candidate.note)
        causes[key] = [*causes.pop(key, []), candidate.id]  # newest last
    lines = [_cut(f"{', '.join(names[-3:])}: {verdict}. {note}", LONGEST) for (verdict, note), names in causes.items()]
    kept = MOST_LINES - len(state.rejected)
    return (*lines[-kept:], *(f"no program: {line}" for line in state.rejected))
