"""The measuring itself: sample after sample in rounds, taken again where something disturbed them, until the ratio is clear."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gpu_runner import machine
from gpu_runner.conditions import Conditions, spoilt
from gpu_runner.contracts import Progress
from gpu_runner.doubts import DISTURBED, interferes
from gpu_runner.sampling import CALL_FLOOR_S, Sampler, WrongResult
from gpu_runner.speed import problem_of
from gpu_runner.stats import median, paired_ratio
from gpu_runner.timed import CANDIDATE, EAGER, Samples
from gpu_runner.values import Call, Forged, ProgramEnded, ProgramRefused

MIN_ROUNDS = 6  # with fewer, no interval has the confidence that is asked for
MIN_WARMUP = 3
WARMUP_CAP_S = 5.0
CALL_FACTOR = 200.0
MORE = 3  # times the protocol's rounds, and of its budget,
MOST_ROUNDS = 20  # but no more than these: what further ones narrow costs more than it tells
RETAKES = 3  # at most so many samples are made for each that is kept
ROUNDS_RETAKEN = 5  # at most, in all
PAUSE_S = 0.02  # after a disturbed sample: what disturbs comes in bursts


@dataclass
class Bench(Sampler):
    """A Sampler that keeps what it makes, by arm and round."""

    samples: dict[str, Samples] = field(default_factory=dict)
    disturbed: int = 0  # samples that were kept although neighbours had the CPUs
    retaken: int = 0  # samples that were not kept for that
    conditions: list[Conditions] = field(default_factory=list)  # of each round

    def __post_init__(self) -> None:
        super().__post_init__()
        self.samples = {name: Samples() for name in self.arms}

    def warm_up(self) -> None:
        """Until every arm has been called a few times and the protocol's time is used. Sets the call's time limit."""
        started = time.perf_counter()
        wanted = min(WARMUP_CAP_S, self.protocol.warmup_s * len(self.arms))
        for number in range(10_000):
            calls = self.sample(first=number == 0, look=True if number == 0 else None)
            self.timeout = max(CALL_FLOOR_S, CALL_FACTOR * calls[EAGER].ns / 1e9)
            elapsed = time.perf_counter() - started
            if elapsed >= WARMUP_CAP_S or (number + 1 >= MIN_WARMUP and elapsed >= wanted):
                return

    def measure(self, rounds: int | None = None) -> None:
        """The protocol's rounds, shrunk to its budget, and more of them while the ratio is vague; or just so many `rounds`.
        Raises WrongResult.

        Whether to go on is asked of the interval's width alone, never of where it lies, so going on favours no answer.
        """
        started = time.monotonic()
        more = MORE if rounds is None else 1
        rounds, each = self.plan(rounds)
        most = max(rounds, min(more * rounds, MOST_ROUNDS))
        budget = MORE * self.protocol.arm_budget_s * len(self.arms)
        number = 0
        while number < rounds or (self._vague() and number < most and time.monotonic() - started < budget):
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
        ratio = paired_ratio(fastest.rounds, self.samples[CANDIDATE].rounds, self.protocol)
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
        affordable = self.protocol.arm_budget_s * len(self.arms) / self.cost()
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
