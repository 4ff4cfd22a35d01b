"""The loop: a pure reducer over `agents.state.State`.

`next_step` says what is due, `apply` takes in what came back. Neither knows of time, network or disk: times arrive inside
outcomes, big things as references. What may come in: `agents.state` and the contracts, nothing that acts.
"""

from agents.loop.due import next_step, open_steps, under_way
from agents.loop.reducer import apply, start

__all__ = ["apply", "next_step", "open_steps", "start", "under_way"]
