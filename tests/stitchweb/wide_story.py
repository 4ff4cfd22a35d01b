"""A run of rounds, three programs in each, as the loop itself tells it; every figure of it is made up."""

from __future__ import annotations

from agents.blobs import MemoryBlobs
from agents.events import Event
from agents.state import Budget, Options, State
from gpu_runner.contracts import PROTOCOLS
from stitchweb.runs.demo.play import Play
from stitchweb.runs.demo.scripts import SCRIPTS
from tests.stitchweb.parts_for_tests import REFERENCE, START


def wide_story(until: str = "", candidate: str = "") -> tuple[list[Event], MemoryBlobs]:
    """All its events, or those up to and with the first of kind `until` about `candidate`."""
    blobs = MemoryBlobs()
    script = next(script for script in SCRIPTS if script.name == "wide")
    options = Options(protocol=PROTOCOLS["strict"], search=script.search, budget=Budget(attempts=len(script.attempts)))
    state = State(run="1", name="layernorm_gelu", source=blobs.put(REFERENCE.encode()), options=options)
    play = Play(script, state, blobs, START)
    play.run()
    last = next((e.seq for e in play.told if e.kind == until and e.payload.get("candidate") == candidate), None)
    return play.told[:last], blobs
