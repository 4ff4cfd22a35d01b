"""Records the demonstrations in examples/cassettes: our own answers, played by a small server, through the loop as it is.

The answers in `cassette_stories.py` were written by people who know what a model does at its best and where it errs. All else
is real: the client, the reading of answers, the sandbox, the compiler, the checks, the timing. A story that does not end with a
right program is not kept. `python tools/cassettes.py [NAME …]` writes all of them, or some.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from agents.blobs import MemoryBlobs  # noqa: E402
from agents.events import Event  # noqa: E402
from agents.headless import optimize  # noqa: E402
from agents.llm.cassette import SHIPPED, Cassette, Recorder, load, write  # noqa: E402
from agents.llm.doors import through  # noqa: E402
from agents.model_choice import ModelChoice  # noqa: E402
from agents.result import verdict_of  # noqa: E402
from agents.state import Budget, Options  # noqa: E402
from gpu_runner.contracts import PROTOCOLS  # noqa: E402
from gpu_runner.local import LocalHands  # noqa: E402
from tests.agents.model_server import ModelServer, Say  # noqa: E402
from tools.cassette_stories import STORIES, Story  # noqa: E402

MODEL = "written-by-hand"


def answers(story: Story) -> Callable[[dict[str, Any]], Say]:
    """The story's answers, each as a stream; tokens as long as the texts are."""
    left: dict[str, list[Any]] = {"Planner": list(story.plans), "Coder": list(story.codes), "Verifier": list(story.verdicts)}

    def reply(body: dict[str, Any]) -> Say:
        role = next(name for name in left if f"You are the {name}" in body["messages"][0]["content"])
        due = left[role].pop(0) if left[role] else "The story has no further answer."
        asked = sum(len(message.get("content") or "") for message in body["messages"]) // 4
        if isinstance(due, str):
            return Say(due, usage=(asked, len(due) // 4), pieces=max(8, len(due) // 24), pause_s=0.01)
        calls = tuple((name, json.dumps(given)) for name, given in due)
        return Say("", calls=calls, usage=(asked, sum(len(given) for _, given in calls) // 4), finish="tool_calls")

    return reply


def record(name: str, story: Story) -> bool:
    """Plays the story through the loop and keeps what was heard, where it ends as it should."""
    source = (ROOT / "examples" / story.program).read_text()
    with tempfile.TemporaryDirectory() as folder, ModelServer([answers(story)]) as server, LocalHands() as hands:
        path = Path(folder) / "new.json"
        choice = ModelChoice(model=f"openai/{MODEL}", api_base=server.url, price_in=1.0, price_out=5.0)
        options = Options(
            planner="llm", coder=story.coder, verifier="llm", protocol=PROTOCOLS["strict"], brief_profiles=True,
            models=dict.fromkeys(("planner", "coder", "verifier"), choice), budget=Budget(attempts=6, wall_s=280.0),
        )  # fmt: skip

        def tell(event: Event) -> None:
            if event.kind in ("candidate.changed", "tool.called", "decision.made"):
                shown = {
                    key: event.payload.get(key) for key in ("id", "status", "verdict", "tool", "sentence", "route", "note")
                }
                print(f"  {event.kind}: { ({k: v for k, v in shown.items() if v}) }", flush=True)

        with through(Recorder(path, source, story.program, story.about)):
            state = optimize(source, options, hands, MemoryBlobs(), tell, name=story.program)
        ended = verdict_of(state)
        print(
            f"{name}: {ended}, best {state.best}, {[(c.id, str(c.verdict), c.speedup) for c in state.candidates]}", flush=True
        )
        if not state.candidates or not state.candidates[-1].verified:
            print(f"{name} did not end with a right program, so it is not kept: {state.error}", file=sys.stderr)
            return False
        kept: Cassette = load(path)
    heard = tuple(one.model_copy(update={"model": MODEL}) for one in kept.heard)
    write(kept.model_copy(update={"heard": heard}), SHIPPED / f"{name}.json")
    return True


def main(names: Sequence[str]) -> int:
    """Records the named stories, or all. Exit status 1 where one was not kept."""
    if unknown := set(names) - set(STORIES):
        print(f"There is no story {', '.join(sorted(unknown))}; there are {', '.join(STORIES)}.", file=sys.stderr)
        return 2
    kept = [record(name, story) for name, story in STORIES.items() if not names or name in names]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
