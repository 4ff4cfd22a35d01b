"""An agent worker and runners for loads: the real processes, whose engineer and hands only act.

`python bench/acting.py agent` and `python bench/acting.py runner --join …`, as `manage.py agent` and `gpu_runner.serve`. A step
of the hands takes ACT_S seconds and says a line ten times a second; for the CPU it takes SHORT_S, so that some runs come to an
end. The engineer's programs are told apart by their todo.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from agents.engineers import CodeAnswer, Context, DecideAnswer, PlanAnswer, register
from agents.state import Candidate, Decision, Todo
from gpu_runner.contracts import CandidateFiles, Progress, Report, Task
from gpu_runner.hands import Cancelled
from tests.agents.loop_world import FakeHands, program

ACT_S = 2.0
SHORT_S = 0.5
NAME = "acted"
TODOS = 10


class Acted:
    """A plan of a few todos, a program for each, then another plan: a run lasts as long as its budget of attempts."""

    name = NAME

    def plan(self, context: Context) -> PlanAnswer:
        made = len(context.state.candidates)
        few = min(TODOS, context.state.options.budget.attempts)
        todos = tuple(Todo(id="", kind="fuse", title=f"Step {made + n}", predicted=1.5) for n in range(1, few + 1))
        return PlanAnswer(todos=todos, note="As told.")

    def code(self, context: Context, todo: Todo, parent: Candidate | None, failed: Candidate | None) -> CodeAnswer:
        return CodeAnswer(files=CandidateFiles(files=program(f"{todo.id} {todo.title}")), title=todo.title)

    def decide(self, context: Context, candidate: Candidate) -> DecideAnswer:
        route = "replan" if len(context.state.candidates) % TODOS == 0 else "advance"
        return DecideAnswer(decision=Decision(candidate=candidate.id, route=route, sentence="On to the next."))


class ActedHands(FakeHands):
    """Reports after `ACT_S` or `SHORT_S` seconds, and says so meanwhile."""

    def warm(self) -> None:
        pass

    def perform(
        self, task: Task, progress: Callable[[Progress], None] = lambda p: None, cancelled: Callable[[], bool] = lambda: False
    ) -> Report:
        for number in range(round(10 * (SHORT_S if task.target == "cpu" else ACT_S))):
            time.sleep(0.1)
            if cancelled():
                raise Cancelled
            progress(Progress(kind="log", payload={"stream": task.kind, "text": f"{task.kind}: line {number}\n"}))
        return super().perform(task, progress, cancelled)


def main() -> int:
    what, *words = sys.argv[1:]
    if what == "agent":
        import django

        django.setup()
        register(NAME, Acted)
        from django.core.management import call_command

        call_command("agent", threads=8)
        return 0
    from gpu_runner import serve, worker

    acted = ActedHands()
    worker.hands = lambda: acted  # type: ignore[assignment,return-value]  looked up by name at each job
    return serve.main(words)


if __name__ == "__main__":
    sys.exit(main())
