"""How a round begins: where its lanes start from, and what each may spend. Pure.

The lanes share out what is left of the budget when the round begins, so that all of them together, each at its worst, spend no
more than one program after the other could.
"""

from __future__ import annotations

from agents.loop.edit import change_todo
from agents.loop.rules import beats_eager, confirmation_share, find, measured
from agents.state import Budget, Candidate, Lane, Round, State, Status, Step

LANE_TOKENS, LANE_DEVICE_S = 4000, 60.0  # with less per lane a round has fewer of them
LEAST_DEVICE_S = 10.0  # with less a lane begins nothing more on a device


def opened(state: State, todo_id: str) -> State:
    """A round for an item of the plan, its lanes about to be coded. At most as many as attempts are left."""
    search, budget, usage = state.options.search, state.options.budget, state.usage
    bases = heads(state, todo_id, min(search.beam, search.width))
    count = min(search.width, budget.attempts - usage.attempts, search.width if search.samples else len(bases))
    tokens, device_s = _left(state)
    if tokens is not None:
        count = min(count, int(tokens // LANE_TOKENS))
    if device_s is not None:
        count = min(count, int(device_s // LANE_DEVICE_S))
    count = max(1, count)
    share = Budget(
        attempts=1,
        wall_s=None,
        tokens=None if tokens is None else int(tokens // count),
        money=None if budget.money is None else max(0.0, budget.money - usage.money) / count,
        device_s=None if device_s is None else device_s / count,
    )
    lanes = tuple(Lane(number=i + 1, base=bases[i % len(bases)], budget=share, step=state.step + i) for i in range(count))
    number = state.rounds + 1
    update = {
        "round": Round(number=number, todo=todo_id, best=state.best, lanes=lanes),
        "rounds": number,
        "status": Status.CODING,
        "current": None,
        "step": state.step + count,
    }
    return change_todo(state, todo_id, status="doing").model_copy(update=update)


def _left(state: State) -> tuple[float | None, float | None]:
    """Tokens and device seconds that a round may spend; None: as many as it takes. Some seconds are kept for the end."""
    budget, usage = state.options.budget, state.usage
    tokens = None if budget.tokens is None else max(0.0, budget.tokens - usage.tokens_in - usage.tokens_out)
    if budget.device_s is None:
        return tokens, None
    kept = confirmation_share(budget.device_s) if state.best is not None else 0.0
    return tokens, max(0.0, budget.device_s - kept - usage.device_s)


def heads(state: State, todo_id: str, most: int) -> list[str | None]:
    """The programs that a round starts from, the most promising first; None stands for the reference.

    A person's wish alone; else the earlier attempts at the item, to be refined or repaired; else the best few programs, with
    the reference where they are fewer.
    """
    if state.branch_from is not None:
        return [state.branch_from]
    tried = [c for c in state.candidates if c.todo == todo_id and c.author == "engineer"]
    right = sorted((c for c in tried if c.verified), key=_speed, reverse=True)
    if tried:
        return [c.id for c in (right or sorted(tried, key=_reached, reverse=True))[:most]]
    best = find(state, state.best)
    ratio = state.options.protocol.faster_ratio
    others = [c for c in state.candidates if c.verified and c is not best and beats_eager(c.timing, ratio)]
    found: list[str | None] = [c.id for c in ([best] if best else []) + sorted(others, key=_speed, reverse=True)]
    return [*found, None][:most]


def _speed(candidate: Candidate) -> float:
    over = measured(candidate)
    return over.value if over else 0.0


def _reached(candidate: Candidate) -> tuple[bool, bool, int]:
    """How far one came that failed, and then how new it is."""
    return candidate.timing is not None, candidate.check is not None, int(candidate.id[1:])


def siblings(state: State, number: int) -> tuple[int, int]:
    """Of the lanes that start where lane `number` does: which one it is, from 1, and how many there are."""
    if state.round is None:
        return 1, 1
    base = state.round.lanes[number - 1].base
    same = [lane.number for lane in state.round.lanes if lane.base == base]
    return same.index(number) + 1, len(same)


def device_left(lane: Lane) -> float | None:
    """Device seconds of its share that a lane has not spent; None: not bounded."""
    return None if lane.budget.device_s is None else lane.budget.device_s - lane.usage.device_s


def allotted(state: State, step: Step) -> State:
    """The state as the engineer of a step may see it: in a lane its budget leaves no more than the lane's share, and the step
    is the lane's."""
    if step.lane is None or state.round is None:
        return state
    lane, used, budget = state.round.lanes[step.lane - 1], state.usage, state.options.budget
    share, spent = lane.budget, lane.usage
    update: dict[str, object] = {}
    if budget.tokens is not None and share.tokens is not None:
        left = share.tokens - spent.tokens_in - spent.tokens_out
        update["tokens"] = min(budget.tokens, used.tokens_in + used.tokens_out + max(0, left))
    if budget.money is not None and share.money is not None:
        update["money"] = min(budget.money, used.money + max(0.0, share.money - spent.money))
    if budget.device_s is not None and (seconds := device_left(lane)) is not None:
        update["device_s"] = min(budget.device_s, used.device_s + max(0.0, seconds))
    options = state.options.model_copy(update={"budget": budget.model_copy(update=update)})
    return state.model_copy(update={"options": options, "step": step.index})
