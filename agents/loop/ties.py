"""Between programs whose speeds are not distinguishable, the one that a judge rates higher is the best. Pure.

Being right and being fast come first: only verified candidates that beat eager are compared, and none is put before another
that is measurably faster, by however little. Who rates is the shell's business: ratings come in with an outcome.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.loop.rules import beats_eager, dropped, find, measured, ratio, target_reached
from agents.state import Candidate, Decision, Rating, State


def tied(state: State) -> tuple[str, ...]:
    """The best and all candidates that may stand in its place, the best first; empty where there is no tie, and for a run that
    lets no judge break any."""
    best = find(state, state.best)
    if not state.options.judge_ties or best is None:
        return ()
    fit = [candidate for candidate in state.candidates if _stands(state, candidate)]
    first = [candidate for candidate in fit if not any(_ahead(other, candidate) for other in fit)]
    if best not in first:
        return ()
    wish = state.options.target_speedup
    if wish is not None and target_reached(state):  # no tie costs a run the end that it has come to
        first = [c for c in first if (over := measured(c)) and over.value >= wish]
    others = [candidate.id for candidate in first if candidate is not best]
    return (best.id, *others) if others else ()


def _stands(state: State, candidate: Candidate) -> bool:
    """Right, measured, faster than eager, and not taken back."""
    if not candidate.verified or measured(candidate) is None or dropped(state, candidate):
        return False
    return beats_eager(candidate.timing, state.options.protocol.faster_ratio)


def _ahead(candidate: Candidate, other: Candidate) -> bool:
    """Whether the first is distinguishably faster: the interval of the quotient lies above 1."""
    over, under = measured(candidate), measured(other)
    return over is not None and under is not None and ratio(over, under).low > 1.0


def settled_by_judge(state: State, decision: Decision, ratings: Sequence[Rating]) -> tuple[State, Decision]:
    """The state with the best that the ratings put first, and the decision with the words on it; both as they were where the
    candidate that is decided on is in no tie."""
    tie = tied(state)
    if state.current not in tie:
        return state, decision.model_copy(update={"tie": ""})
    best, told = tie[0], {rating.candidate: rating for rating in ratings}
    mine = told.get(best)
    judge = mine.judge if mine and mine.merit is not None else ""
    # Merits of two versions are of two scales.
    merits = {cid: r.merit for cid in tie if (r := told.get(cid)) and r.merit is not None and r.judge == judge}
    said = f"{_listed(tie)} are not distinguishable in speed. "
    if best not in merits or len(merits) < 2:
        why = next((r.broken for r in ratings if r.broken), "no judge has rated them")
        words = f"{said}{best} stays the best, for no judge put one first: {why}"
        return state, decision.model_copy(update={"tie": words[:600]})
    first = max(merits, key=lambda cid: (merits[cid], cid == best))
    word = "stays" if first == best else "is"
    unrated = [cid for cid in tie if cid not in merits]
    without = f" It did not rate {_listed(unrated)}." if unrated else ""
    words = f"{said}The {judge} rates {first} highest, so it {word} the best.{without}"
    return state.model_copy(update={"best": first}), decision.model_copy(update={"tie": words[:600]})


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
