"""The loop in one process tree: no database, no broker, no web. The imperative shell that tests and the command line share.

`optimize` asks the reducer what is due, has the hands or an engineer do it, takes the outcome in and tells every event.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from agents.events import Coalescer, Event, EventKind, created, events_of, events_of_progress
from agents.loop import apply, next_step, start
from agents.state import BlobStore, Broken, Control, Options, Outcome, State, Status, Steered, Step, Stop
from agents.steps import outcome_of, task_for, think
from gpu_runner.contracts import Progress, Report, Task
from gpu_runner.hands import Cancelled, Hands, HandsError

log = logging.getLogger(__name__)


def optimize(
    source_text: str,
    options: Options,
    hands: Hands,
    blobs: BlobStore,
    on_event: Callable[[Event], None] = lambda event: None,
    cancelled: Callable[[], bool] = lambda: False,
    *,
    name: str = "program.py",
    run: str = "local",
    entry: str = "",
    clock: Callable[[], float] = time.time,
) -> State:
    """Run the loop on a reference to its end and return the ended state.

    `on_event` gets every event in order, one at a time; `cancelled` is asked between and during steps. A plan is never held for
    approval here, for nobody is there to give it. What the hands cannot do ends in the state, not in an exception.
    """
    options = options.model_copy(update={"approve_plan": False})
    state = State(run=run, name=name, source=blobs.put(source_text.encode()), entry=entry, options=options)
    return _Shell(state, hands, blobs, on_event, cancelled, clock).run()


class _Shell:
    """One run under way. The hands may report progress from a thread of their own, so numbering and telling hold a lock."""

    def __init__(
        self,
        state: State,
        hands: Hands,
        blobs: BlobStore,
        on_event: Callable[[Event], None],
        cancelled: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self.state, self.hands, self.blobs = state, hands, blobs
        self.on_event, self.cancelled, self.clock = on_event, cancelled, clock
        self.seq = 0
        self.lock = threading.Lock()
        self.text = Coalescer()

    def run(self) -> State:
        self._tell(created(self.state, self.clock(), self.seq))
        self._move(None, start(self.state, self.clock()))
        while not isinstance(step := next_step(self.state), Stop):
            outcome = self._cancel() if self.cancelled() else self._do(step)
            self._move(outcome, apply(self.state, outcome))
        return self.state

    def _do(self, step: Step) -> Outcome:
        try:
            outcome = self._by_hands(step) if step.by_hands else self._by_engineer(step)
        except Cancelled:
            outcome = self._cancel()
        finally:
            self._say_rest()
        # a program that was killed together with us must not be booked as the program's fault
        return self._cancel() if self.cancelled() else outcome

    def _by_hands(self, step: Step) -> Outcome:
        began = self.clock()
        try:
            task = task_for(step, self.state, self.blobs)
            report = self.hands.perform(task, lambda progress: self._progress(progress, step), self.cancelled)
        except HandsError as error:
            at = self.clock()
            return Broken(step=step.index, at=at, seconds=max(0.0, at - began), reason=str(error))
        except Cancelled:
            raise
        except Exception as error:  # a fault of ours must cost this step, not all that a benchmark has still to do
            log.exception("the hands failed at the %s step", step.kind)
            at = self.clock()
            reason = f"The hands failed: {type(error).__name__}: {error}"
            return Broken(step=step.index, at=at, seconds=max(0.0, at - began), reason=reason[:1000])
        at = self.clock()
        return outcome_of(step, self.state, report, self.blobs, at, max(0.0, at - began))

    def _by_engineer(self, step: Step) -> Outcome:
        def hands(task: Task) -> Report:
            return self.hands.perform(task, lambda progress: None, self.cancelled)

        return think(
            step,
            self.state,
            self.blobs,
            self._say,
            self.cancelled,
            self.clock,
            asked=self._asked,
            hands=hands,
            called=self._called,
        )

    def _cancel(self) -> Steered:
        control = Control(id="interrupt", kind="cancel")
        return Steered(step=self.state.step, at=self.clock(), control=control)

    def _move(self, outcome: Outcome | None, after: State) -> None:
        at = outcome.at if outcome is not None else self.clock()
        with self.lock:
            events = events_of(self.state, outcome, after, at, self.seq, self.blobs)
        self.state = after
        self._tell(events)

    def _tell(self, events: list[Event]) -> None:
        with self.lock:
            for event in events:
                self.seq = event.seq
                self.on_event(event)

    def _one(self, kind: EventKind, payload: Mapping[str, object], who: str) -> None:
        with self.lock:
            self.seq += 1
            self.on_event(Event(seq=self.seq, kind=kind, at=self.clock(), who=who, payload=dict(payload)))

    def _progress(self, progress: Progress, step: Step) -> None:
        if progress.kind == "log":
            stream, text = str(progress.payload.get("stream") or "runner"), str(progress.payload.get("text", ""))
            for payload in self.text.add(stream, text, self.clock()):
                self._one("log.lines", payload, "runner")
            return
        for kind, payload in events_of_progress(progress, step, self.state):
            self._one(kind, payload, "runner")

    def _say(self, text: str) -> None:
        for payload in self.text.add("engineer", text, self.clock()):
            self._one("log.lines", payload, "engineer")

    def _asked(self, payload: dict[str, object]) -> None:
        self._one("model.asked", payload, "engineer")

    def _called(self, payload: dict[str, object]) -> None:
        self._say_rest()
        self._one("tool.called", payload, "engineer")

    def _say_rest(self) -> None:
        for payload in self.text.flush():
            self._one("log.lines", payload, "engineer" if payload["stream"] == "engineer" else "runner")


def exit_status(state: State, verdict: str) -> int:
    """The exit status of `optimize`: 0 verified and faster than eager, 2 refused, 3 no gain, 4 anything else."""
    if state.status is not Status.FINISHED:
        return 4
    return {"verified": 0, "refused": 2, "no-gain": 3}.get(verdict, 4)
