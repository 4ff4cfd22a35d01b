"""The loop in one process tree: no database, no broker, no web. The imperative shell that tests and the command line share.

`optimize` asks the reducer what is due, has the hands or an engineer do it, takes the outcome in and tells every event.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

from agents.engineers import reads_text
from agents.events import Coalescer, Event, EventKind, created, events_of, events_of_progress, stream_of
from agents.loop import apply, open_steps, start
from agents.state import BlobStore, Broken, Control, Options, Outcome, State, Status, Steered, Step
from agents.steps import outcome_of, task_for, think
from gpu_runner.contracts import Progress, Report, Task
from gpu_runner.hands import Cancelled, Hands, HandsError

log = logging.getLogger(__name__)

CANCEL_POLL_S = 0.2


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
    search = options.search.model_copy(update={"samples": reads_text(options.coder)})
    options = options.model_copy(update={"approve_plan": False, "search": search})
    state = State(run=run, name=name, source=blobs.put(source_text.encode()), entry=entry, options=options)
    return _Shell(state, hands, blobs, on_event, cancelled, clock).run()


class _Shell:
    """One run under way. The steps of a round are done in threads, and the hands may report progress from threads of their own,
    so numbering and telling hold a lock. These hands are one device: its steps wait for each other, so that no build disturbs a
    timing, while programs are written beside them."""

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
        self.lock = threading.RLock()
        self.device = threading.Lock()

    def run(self) -> State:
        self._tell(created(self.state, self.clock(), self.seq))
        self._move(None, start(self.state, self.clock()))
        while steps := open_steps(self.state):
            if self.state.round is not None:
                self._round()
                continue
            outcome = self._cancel() if self.cancelled() else self._do(steps[0], self.state)
            self._move(outcome, apply(self.state, outcome))
        return self.state

    def _round(self) -> None:
        """All steps of the round under way, to its end: each is begun as soon as it is due."""
        flying: dict[Future[Outcome], int] = {}
        with ThreadPoolExecutor(self.state.options.search.width, thread_name_prefix="lane") as pool:
            while self.state.round is not None:
                if self.cancelled():
                    outcome: Outcome = self._cancel()
                    self._move(outcome, apply(self.state, outcome))
                    return
                for step in open_steps(self.state):
                    if step.index not in flying.values():
                        flying[pool.submit(self._do, step, self.state)] = step.index
                done, _ = wait(flying, timeout=CANCEL_POLL_S, return_when=FIRST_COMPLETED)
                for future in done:
                    del flying[future]
                    outcome = future.result()
                    self._move(outcome, apply(self.state, outcome))

    def _do(self, step: Step, state: State) -> Outcome:
        words = _Words(self, step)
        try:
            outcome = self._by_hands(step, state, words) if step.by_hands else self._by_engineer(step, state, words)
        except Cancelled:
            outcome = self._cancel()
        finally:
            words.say_rest()
        # a program that was killed together with us must not be booked as the program's fault
        return self._cancel() if self.cancelled() else outcome

    def _by_hands(self, step: Step, state: State, words: _Words) -> Outcome:
        began = self.clock()
        try:
            task = task_for(step, state, self.blobs)
            with self._device():
                began = self.clock()
                report = self.hands.perform(task, words.progress, self.cancelled)
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
        return outcome_of(step, state, report, self.blobs, at, max(0.0, at - began))

    @contextmanager
    def _device(self) -> Iterator[None]:
        """The hands for one step alone. Raises Cancelled while it waits for them."""
        while not self.device.acquire(timeout=CANCEL_POLL_S):
            if self.cancelled():
                raise Cancelled
        try:
            yield
        finally:
            self.device.release()

    def _by_engineer(self, step: Step, state: State, words: _Words) -> Outcome:
        return think(
            step, state, self.blobs, words.say, self.cancelled, self.clock, asked=words.asked, hands=_Lent(self),
            called=words.called,
        )  # fmt: skip

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

    def one(self, kind: EventKind, payload: Mapping[str, object], who: str) -> None:
        """One event beside those of an outcome."""
        with self.lock:
            self._tell([Event(seq=self.seq + 1, kind=kind, at=self.clock(), who=who, payload=dict(payload))])


class _Lent:
    """The hands as an engineer with tools gets them: its tasks wait for the device like the steps of others."""

    def __init__(self, shell: _Shell) -> None:
        self.shell, self.seconds = shell, 0.0

    def __call__(self, task: Task) -> Report:
        with self.shell._device():
            began = self.shell.clock()
            try:
                return self.shell.hands.perform(task, lambda progress: None, self.shell.cancelled)
            finally:
                self.seconds += max(0.0, self.shell.clock() - began)


class _Words:
    """What is said during one step, coalesced."""

    def __init__(self, shell: _Shell, step: Step) -> None:
        self.shell, self.step = shell, step
        self.text = Coalescer()
        self.lock = threading.Lock()

    def progress(self, progress: Progress) -> None:
        if progress.kind == "log":
            name = stream_of(str(progress.payload.get("stream") or "runner"), self.step.lane)
            self._add(name, str(progress.payload.get("text", "")), "runner")
            return
        for kind, payload in events_of_progress(progress, self.step, lambda: self.shell.state):
            self.shell.one(kind, payload, "runner")

    def say(self, text: str) -> None:
        self._add(stream_of("engineer", self.step.lane), text, "engineer")

    def asked(self, payload: dict[str, object]) -> None:
        self.shell.one("model.asked", payload, "engineer")

    def called(self, payload: dict[str, object]) -> None:
        self.say_rest()
        self.shell.one("tool.called", payload, "engineer")

    def _add(self, stream: str, text: str, who: str) -> None:
        with self.lock:
            payloads = self.text.add(stream, text, self.shell.clock())
        for payload in payloads:
            self.shell.one("log.lines", payload, who)

    def say_rest(self) -> None:
        with self.lock:
            payloads = self.text.flush()
        for payload in payloads:
            self.shell.one("log.lines", payload, "runner" if self.step.by_hands else "engineer")


def exit_status(state: State, verdict: str) -> int:
    """The exit status of `optimize`: 0 verified and faster than eager, 2 refused, 3 no gain, 4 anything else."""
    if state.status is not Status.FINISHED:
        return 4
    return {"verified": 0, "refused": 2, "no-gain": 3}.get(verdict, 4)
