"""The measuring itself: arms called side by side on content none of them has seen, results compared, two clocks kept."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpu_runner import machine
from gpu_runner.conditions import Conditions, spoilt
from gpu_runner.contracts import Progress, Protocol
from gpu_runner.device import evict_bytes
from gpu_runner.doubts import DISTURBED, interferes
from gpu_runner.eviction import Eviction
from gpu_runner.eviction import shared as shared_eviction
from gpu_runner.findings import not_plain
from gpu_runner.job import Job
from gpu_runner.judging import JudgePeer
from gpu_runner.neighbours import Neighbours
from gpu_runner.peers import Program, ReferencePeer, seed
from gpu_runner.probing import compared, seen_of
from gpu_runner.speed import problem_of
from gpu_runner.stats import median, paired_ratio
from gpu_runner.timed import CANDIDATE, EAGER, Samples, WrongCall
from gpu_runner.values import Call, Forged, ProgramEnded, ProgramRefused, Value, buffer_names, closing, only
from gpu_runner.verdict import accepted

MIN_ROUNDS = 6  # with fewer, no interval has the confidence that is asked for
MIN_WARMUP = 3
WARMUP_CAP_S = 5.0
CALL_FLOOR_S = 20.0
CALL_FACTOR = 200.0
CHECK_SHARE = 0.1  # of the samples, where comparing all would cost more than measuring
MOST_ROUNDS = 3
RETAKES = 3  # at most so many samples are made for each that is kept
ROUNDS_RETAKEN = 5  # at most, in all
SETTLE_S = 0.1
LOOK_S = 0.0005
PAUSE_S = 0.02  # after a disturbed sample: what disturbs comes in bursts
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
class Bench:
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
    samples: dict[str, Samples] = field(default_factory=dict)
    compared: int = 0
    calls: int = 0
    disturbed: int = 0  # samples that were kept although neighbours had the CPUs
    retaken: int = 0  # samples that were not kept for that
    neighbours: Neighbours | None = None
    eviction: Eviction | None = None  # on the CPU; a device's caches are emptied where its memory is
    conditions: list[Conditions] = field(default_factory=list)  # of each round
    busy: list[float] = field(default_factory=list)  # what the candidate ran while others were called, in cores
    _last: Call | None = None  # eager's, of the sample before
    _compare_s: float = 0.0
    _draw_s: float = 0.0
    _rest_s: float = 0.0
    _costs: list[float] = field(default_factory=list)
    _timeout: float = CALL_FLOOR_S

    def __post_init__(self) -> None:
        self.samples = {name: Samples() for name in self.arms}
        if self.job.device == "cpu":
            self.neighbours = Neighbours()
            self.eviction = shared_eviction(evict_bytes("cpu"), tuple(sorted(os.sched_getaffinity(0))))

    # ---- one sample --------------------------------------------------------------------------------------------------

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
        # Whoever was asked last may still spin: it would take a core from another program, and lend its own a thread.
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
        if self.neighbours is None:
            return arm.go(self._timeout)
        watched = candidate.sandbox.pid if candidate and name != CANDIDATE else 0
        started, others = time.perf_counter_ns(), self.neighbours.ran(watched) if watched else 0
        own = self.neighbours.ran(arm.sandbox.pid, first_threads=True)
        self.neighbours.start(arm.sandbox.pid)
        call = arm.go(self._timeout)
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

    # ---- all samples -------------------------------------------------------------------------------------------------

    def warm_up(self) -> None:
        """Until every arm has been called a few times and the protocol's time is used. Sets the call's time limit."""
        started = time.perf_counter()
        wanted = min(WARMUP_CAP_S, self.protocol.warmup_s * len(self.arms))
        for number in range(10_000):
            calls = self.sample(first=number == 0, look=True if number == 0 else None)
            self._timeout = max(CALL_FLOOR_S, CALL_FACTOR * calls[EAGER].ns / 1e9)
            elapsed = time.perf_counter() - started
            if elapsed >= WARMUP_CAP_S or (number + 1 >= MIN_WARMUP and elapsed >= wanted):
                return

    def measure(self, rounds: int | None = None) -> None:
        """The protocol's rounds, shrunk to its budget, and more of them while the ratio is vague; or just so many `rounds`.
        Raises WrongResult.

        Whether to go on is asked of the interval's width alone, never of where it lies, so going on favours no answer.
        """
        started = time.monotonic()
        most = MOST_ROUNDS if rounds is None else 1
        rounds, each = self.plan(rounds)
        budget = MOST_ROUNDS * self.protocol.arm_budget_s * len(self.arms)
        number = 0
        while number < rounds or (self._vague() and number < most * rounds and time.monotonic() - started < budget):
            if number and interferes(self.busy):
                return
            kept = self._round_in_good_conditions(each)
            number += 1
            for name, samples in self.samples.items():
                taken = [_time(calls[name]) for calls in kept]
                samples.rounds.append([float(max(1, time)) for time in taken])
                samples.gaps += [float(calls[name].wall_ns - time) for calls, time in zip(kept, taken, strict=True)]
                if self.neighbours is not None:
                    first = [calls[name].first_thread_ns for calls in kept]
                    samples.unclaimed += [float(ran - time) for ran, time in zip(first, taken, strict=True)]
                    samples.before_cpu += [float(calls[name].before_cpu_ns) for calls in kept]
                samples.before += [float(calls[name].before_ns) for calls in kept]
                samples.others += [calls[name].neighbours or 0.0 for calls in kept]
                samples.woken += [float(calls[name].woken_ns) for calls in kept]
                samples.after += [float(calls[name].after_ns) for calls in kept if _same_form(calls, name)]
                payload = {"arm": name, "round": number, "rounds": max(number, rounds), "median_ms": samples.medians[-1] / 1e6}
                self.job.progress(Progress(kind="timing", payload=payload))

    def _round_in_good_conditions(self, each: int) -> list[dict[str, Call]]:
        """A round; taken again, a few times in all, where the device was slowed down or shared meanwhile."""
        while True:
            before = machine.read(self.job.device)
            kept = self._round(each)
            seen = Conditions(before, machine.read(self.job.device))
            self.conditions.append(seen)
            again = sum(not c.kept for c in self.conditions) < ROUNDS_RETAKEN
            if not spoilt(seen, cores()) or not again:
                return kept
            seen.kept = False

    def _vague(self) -> bool:
        """Whether the candidate's ratio over the fastest other arm is not known as narrowly as the protocol wants."""
        if CANDIDATE not in self.samples:
            return False
        others = [samples for name, samples in self.samples.items() if name != CANDIDATE]
        fastest = min(others, key=lambda samples: median(samples.all))
        ratio = paired_ratio(fastest.medians, self.samples[CANDIDATE].medians, self.protocol)
        return (ratio.high - ratio.low) / 2.0 > self.protocol.half_width * ratio.value

    def _round(self, each: int) -> list[dict[str, Call]]:
        """`each` samples, taken again where neighbours disturbed them; where they never rest, the least disturbed ones."""
        made: list[tuple[float, dict[str, Call]]] = []
        quiet = 0
        for number in range(each * RETAKES):
            calls = self.sample(first=number == 0)
            share = max((call.neighbours or 0.0 for call in calls.values()), default=0.0)
            made.append((share, calls))
            if share <= DISTURBED:
                quiet += 1
                if quiet == each:
                    break
            elif interferes(self.busy):
                break
            else:
                time.sleep(PAUSE_S)
        made.sort(key=lambda item: item[0])
        self.retaken += max(0, len(made) - each)
        self.disturbed += each - min(each, quiet)
        return [calls for _, calls in made[:each]]

    def plan(self, rounds: int | None = None) -> tuple[int, int]:
        """(rounds, samples per round) that fit the budget, from what samples cost so far."""
        rounds = rounds or self.protocol.rounds
        rest = median(self._costs or [self._rest_s])
        cost = max(1e-4, rest + (self._draw_s if self._draw_s <= SLOW_DRAW * rest else 0.0))
        affordable = self.protocol.arm_budget_s * len(self.arms) / cost
        total = int(min(rounds * self.protocol.samples_per_round, affordable))
        if total < rounds:
            return max(MIN_ROUNDS, total), 1
        return rounds, max(1, total // rounds)


def _time(call: Call) -> int:
    return call.ns if call.device_ns is None else call.device_ns


def _same_form(calls: dict[str, Call], name: str) -> bool:
    """Whether taking this result out is the same work as taking eager's out."""
    mine, eager = calls[name].output, calls[EAGER].output
    if mine is None or eager is None:
        return False
    return [leaf.get("stride") for leaf in mine.manifest["leaves"]] == [leaf.get("stride") for leaf in eager.manifest["leaves"]]


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))


def drop_failing(bench: Bench, action: Callable[[], None], errors: dict[str, str]) -> None:
    """Do something with all arms; a baseline that fails or is wrong is taken out with its reason, and it is done again.

    What happens to eager or to the candidate is raised.
    """
    while True:
        try:
            return action()
        except WrongResult as error:
            if error.call.arm in (CANDIDATE, EAGER):
                raise
            errors[error.call.arm] = f"its result is wrong: {problem_of(error.call, bench.protocol)}"
            _without(bench, error.call.arm)
        except (ProgramRefused, ProgramEnded, Forged) as error:
            broken = [n for n, arm in bench.arms.items() if n not in (CANDIDATE, EAGER) and arm.sandbox.ended_reason]
            if not broken:
                raise
            for name in broken:
                errors[name] = error.refusal.sentence
                _without(bench, name)


def _without(bench: Bench, arm: str) -> None:
    bench.arms.pop(arm).close()
    bench.samples.pop(arm, None)
