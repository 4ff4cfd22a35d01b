"""One sample of a timing: every arm called once on content that none of them has seen, results compared, two clocks kept."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass, field
from typing import Any

from gpu_runner.contracts import Protocol
from gpu_runner.device import evict_bytes
from gpu_runner.eviction import Eviction
from gpu_runner.eviction import shared as shared_eviction
from gpu_runner.findings import not_plain
from gpu_runner.job import Job
from gpu_runner.judging import JudgePeer
from gpu_runner.neighbours import Neighbours
from gpu_runner.peers import Program, ReferencePeer, seed
from gpu_runner.probing import compared, seen_of
from gpu_runner.stats import median
from gpu_runner.timed import CANDIDATE, EAGER, WrongCall
from gpu_runner.values import Call, Value, buffer_names, closing, only
from gpu_runner.verdict import accepted

CALL_FLOOR_S = 20.0
CHECK_SHARE = 0.1  # of the samples, where comparing all would cost more than measuring
SETTLE_S = 0.1
LOOK_S = 0.0005
SLOW_DRAW = 0.25  # of what a sample takes besides: drawing slower than this is done once a round
SCALE = (0.75, 1.0)  # keeps probabilities, masks and signs what they are

# Order, storage and which results are looked at must not be guessable.
_secret = random.SystemRandom()


class WrongResult(Exception):
    """An arm gave a wrong result in a timed call."""

    def __init__(self, call: WrongCall) -> None:
        super().__init__(f"the arm {call.arm} gave a wrong result")
        self.call = call


@dataclass
class Sampler:
    """Arms of one program on one device. `source` draws the inputs; `slack` is eager's own error per result, `usual` its RMS, 0
    where there is no truth. `stateful`: it changes inputs or buffers, and what a call leaves in them is compared as its results
    are."""

    job: Job
    protocol: Protocol
    source: ReferencePeer
    arms: dict[str, Program]
    judge: JudgePeer
    rtol: dict[str, float]
    slack: list[float]
    always_scale: bool = False
    usual: list[float] = field(default_factory=list)
    stateful: bool = False
    drift: list[float] = field(default_factory=list)  # of each result compared: the candidate's distance from eager's over that
    compared: int = 0
    calls: int = 0
    neighbours: Neighbours | None = None
    eviction: Eviction | None = None  # on the CPU; a device's caches are emptied where its memory is
    busy: list[float] = field(default_factory=list)  # what the candidate ran while others were called, in cores
    timeout: float = CALL_FLOOR_S  # of a call
    _last: Call | None = None  # eager's, of the sample before
    _called: Program | None = None  # last
    _compare_s: float = 0.0
    _draw_s: float = 0.0
    _rest_s: float = 0.0
    _costs: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.job.device == "cpu":
            self.neighbours = Neighbours()
            self.eviction = shared_eviction(evict_bytes("cpu"), tuple(sorted(os.sched_getaffinity(0))))

    def cost(self) -> float:
        """Seconds that a sample takes, from those made so far."""
        rest = median(self._costs or [self._rest_s])
        return max(1e-4, rest + (self._draw_s if self._draw_s <= SLOW_DRAW * rest else 0.0))

    def _inputs(self, first: bool) -> Value:
        """Content nobody has seen: a draw of its own, or where drawing is slow the round's draw under another scale."""
        slow = self._draw_s > SLOW_DRAW * self._rest_s
        options: dict[str, Any] = {}
        if self.always_scale or (slow and not first):
            options["scale"] = _secret.uniform(*SCALE)
        if slow and not first:
            options["reuse"] = True
        start = time.perf_counter()
        drawn = self.source.draw(seed(), **options)
        if not options.get("reuse"):
            self._draw_s = time.perf_counter() - start
        if drawn is None:
            raise ValueError("a plain draw always gives inputs")
        return drawn[0]

    def sample(self, first: bool = False, look: bool | None = None) -> dict[str, Call]:
        """Every arm once, in random order, on the same new content. Raises WrongResult."""
        inputs = self._inputs(first)
        started = time.perf_counter()
        calls: dict[str, Call] = {}
        left: dict[str, Value] = {}
        look = self._worth_looking() if look is None else look
        with closing(inputs):
            for name in _secret.sample(list(self.arms), len(self.arms)):
                arm = self.arms[name]
                before_ns, before_cpu_ns, woken_ns = self._prepare(arm, inputs)
                # Whether a result will be looked at is decided, but not told, before the call.
                call = calls[name] = self._go(name)
                call.before_ns, call.before_cpu_ns, call.woken_ns = before_ns, before_cpu_ns, woken_ns
                if look:
                    taken = time.perf_counter_ns()
                    arm.collect(calls[name], watch=self.stateful)
                    calls[name].after_ns = time.perf_counter_ns() - taken
                    if self.stateful:
                        left[name] = arm.buffers()
            self._rest_s = time.perf_counter() - started
            self._costs.append(self._rest_s)
            self.calls += 1
            try:
                if look:
                    self._compare(calls, inputs)
                    self._compare_left(calls, left, inputs)
            finally:
                for value in left.values():
                    value.close()
                for name, call in calls.items():
                    if name != EAGER:
                        call.close()
                self._forget_last()
                self._last = calls[EAGER]
        return calls

    def close(self) -> None:
        """Give back the result that is kept from sample to sample, and the files of the neighbours."""
        self._forget_last()
        if self.neighbours is not None:
            self.neighbours.close()

    def _forget_last(self) -> None:
        if self._last is not None:
            self._last.close()
            self._last = None

    def _prepare(self, arm: Program, inputs: Value) -> tuple[int, int, int]:
        """Lay out the inputs. (the parent's clock around it, what the kernel saw the arm's processes run, the parent's clock
        around waking its threads), in nanoseconds."""
        storage = _secret.choice(("same", "fresh"))
        evict = 0 if self.eviction else evict_bytes(self.job.device)
        # Whoever was called last may still spin for a while, which is neither its own laying out nor another one's: all rest
        # before the next call.
        if arm is self._called:
            self._settle()
        ran = self.neighbours.ran(arm.sandbox.pid) if self.neighbours else 0
        started = time.perf_counter_ns()
        arm.prepare(inputs, storage=storage, evict=evict, watch=self.stateful, restore=self.stateful)
        prepared = time.perf_counter_ns()
        if self.eviction:
            self.eviction.evict()
        self._settle()  # ours leaves nothing running: what works on until the call begins is the program's
        ran = self.neighbours.ran(arm.sandbox.pid) - ran if self.neighbours else 0
        settled = time.perf_counter_ns()
        arm.wake()
        return prepared - started, ran, time.perf_counter_ns() - settled

    def _settle(self) -> None:
        """Wait until all programs rest, for a moment at most: OpenMP's threads spin for some milliseconds after a call, longer
        where the cores are taken, and would slow the next program's call."""
        if self.neighbours is None:
            return
        roots = [arm.sandbox.pid for arm in (*self.arms.values(), self.judge)]
        until = time.monotonic() + SETTLE_S
        while not self.neighbours.rest(roots) and time.monotonic() < until:
            time.sleep(LOOK_S)

    def _go(self, name: str) -> Call:
        arm, candidate = self.arms[name], self.arms.get(CANDIDATE)
        self._called = arm
        if self.neighbours is None:
            return arm.go(self.timeout)
        watched = candidate.sandbox.pid if candidate and name != CANDIDATE else 0
        started, others = time.perf_counter_ns(), self.neighbours.ran(watched) if watched else 0
        own = self.neighbours.ran(arm.sandbox.pid, first_threads=True)
        self.neighbours.start(arm.sandbox.pid)
        call = arm.go(self.timeout)
        call.neighbours = self.neighbours.disturbance()
        # Read last: by now the thread that answered sleeps, and its number is exact.
        call.first_thread_ns = self.neighbours.ran(arm.sandbox.pid, first_threads=True) - own
        if watched:
            self.busy.append((self.neighbours.ran(watched) - others) / (time.perf_counter_ns() - started))
        return call

    def _worth_looking(self) -> bool:
        share = 1.0 if self._compare_s < 0.25 * self._rest_s else CHECK_SHARE
        return _secret.random() < share

    def _compare(self, calls: dict[str, Call], inputs: Value) -> None:
        started = time.perf_counter()
        eager = calls[EAGER].output
        for name, call in calls.items():
            if name == EAGER or call.output is None or eager is None:
                continue
            pair = self.rtol, 1.0 + self.protocol.ratio_reordered, call.output, eager
            numbers = compared(self.source, self.judge, inputs, *pair, slack=self.slack)
            seen = seen_of(self.arms[name].side, call)
            lazy = "".join(not_plain(seen)[:1])
            if seen.late or lazy or not accepted(numbers, None, self.protocol):
                raise WrongResult(WrongCall(name, numbers, bool(seen.late), self._is_last(call.output), lazy=lazy))
            if name == CANDIDATE:
                pairs = zip(numbers["leaves"], self.usual, strict=False)
                self.drift += [leaf["rmse"] / usual for leaf, usual in pairs if usual and "rmse" in leaf]
        self.compared += 1
        self._compare_s = time.perf_counter() - started

    def _compare_left(self, calls: dict[str, Call], left: dict[str, Value], inputs: Value) -> None:
        """Inputs and buffers after a call beside those that eager left."""
        for name in left:
            if name == EAGER:
                continue
            shared = buffer_names(left[name]) & buffer_names(left[EAGER])
            after = [calls[arm].inputs_after or inputs for arm in (name, EAGER)]
            for mine, theirs in (after, [only(left[arm], shared) for arm in (name, EAGER)]):
                numbers = self.judge.compare(self.rtol, 1.0 + self.protocol.ratio_reordered, mine, theirs)
                if not accepted(numbers, None, self.protocol):
                    raise WrongResult(WrongCall(name, numbers))

    def _is_last(self, output: Value) -> bool:
        if self._last is None or self._last.output is None:
            return False
        numbers = self.judge.compare(self.rtol, 1.0 + self.protocol.ratio_reordered, output, self._last.output)
        return accepted(numbers, None, self.protocol)
