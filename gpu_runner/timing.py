"""Times the baselines and the candidate side by side, and says what may be claimed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from typing import Any

from gpu_runner.check import candidate_failure
from gpu_runner.config import config, private_folder
from gpu_runner.contracts import (
    ArmTiming,
    Interval,
    Label,
    Precision,
    Speed,
    TimeTask,
    TimingReport,
    Verdict,
)
from gpu_runner.device import evict_bytes
from gpu_runner.hands import Cancelled
from gpu_runner.peers import CandidatePeer, Job, JudgePeer, Program, ReferencePeer, tolerances
from gpu_runner.probing import Facts, draw
from gpu_runner.rounds import CANDIDATE, EAGER, Bench, Samples, WrongResult, drop_failing
from gpu_runner.sandbox import shared_pool
from gpu_runner.session import NotBuilt, Opening, Session
from gpu_runner.stats import agree, bootstrap, median, noise, paired_ratio, percentile, speed_word
from gpu_runner.values import ProgramEnded, ProgramRefused, closing
from gpu_runner.verdict import accepted, leaf_ratio, numeric, precision_label, structural

NO_GRAPHS = "CUDA graphs, which this mode is about, have no meaning on the CPU"
NOTHING_TO_TUNE = "the same as default: on the CPU this mode tunes matrix products, and the program has none"
AGREEMENT = 0.03
HIDDEN_SHARE = 0.1
HIDDEN_FLOOR_NS = 50_000.0  # a round trip to a sandbox varies by this much
COMPILE_LIMIT_S = 240.0


def perform_timing(job: Job, task: TimeTask, session: Session) -> TimingReport:
    """A whole timing: processes, warm-up, rounds, and a second process where the protocol wants one."""
    opening = Opening(job, task.candidate, task.target) if task.candidate is not None else None
    timer = Timer(job, task, session)
    candidate: CandidatePeer | None = None
    try:
        try:
            reference, judge = session.peers(job, task.source)
            facts = session.facts(job, task.source, task.protocol)
            if opening is not None:
                candidate = opening.load(reference.facts["init_inputs"])
                with closing(weights := reference.weights()):
                    candidate.load_weights(weights)
            return timer.run(reference, judge, facts, candidate)
        except NotBuilt as error:
            return timer.failed(Verdict.BUILD_FAILED, str(error))
        except WrongResult as error:
            return timer.failed(Verdict.INCORRECT, f"A result of a timed call is wrong: {error}.")
        except (ProgramRefused, ProgramEnded) as error:
            if error.side != "candidate":
                session.forget(job, task.source)
                return timer.failed(Verdict.REFUSED, f"The reference cannot be used: {error.refusal.sentence}")
            verdict, _, sentence, _ = candidate_failure(error)
            return timer.failed(verdict, sentence)
    finally:
        if candidate is not None:
            candidate.close()
        elif opening is not None:
            opening.abandon()


class Timer:
    """One timing task."""

    def __init__(self, job: Job, task: TimeTask, session: Session) -> None:
        self.job, self.task, self.session = job, task, session
        self.protocol = task.protocol
        self.errors: dict[str, str] = {}
        self.build_s: dict[str, float] = {}

    def failed(self, verdict: Verdict, sentence: str) -> TimingReport:
        return TimingReport(verdict=verdict, sentence=sentence, errors=self.errors, protocol=self.protocol.id)

    def run(self, reference: ReferencePeer, judge: JudgePeer, facts: Facts, candidate: CandidatePeer | None) -> TimingReport:
        """Raises WrongResult, ProgramRefused and ProgramEnded for what the programs do."""
        arms: dict[str, Program] = {EAGER: reference}
        for mode in self.protocol.arms:
            if mode != EAGER and (arm := self._compiled(mode)) is not None:
                arms[mode] = arm
        if candidate is not None:
            arms[CANDIDATE] = candidate
        shared_pool().settle()
        with self._device():
            bench, ratio = self._bench(reference, judge, facts, arms)
            self.job.stage("warming up")
            drop_failing(bench, bench.warm_up, self.errors)
            self.job.stage("timing " + ", ".join(bench.arms))
            drop_failing(bench, bench.measure, self.errors)
            second = None
            if candidate is not None and self.protocol.second_process:
                second = self._second(reference, judge, facts)
        return self._report(bench, facts, ratio, second)

    # ---- arms --------------------------------------------------------------------------------------------------------

    def _compiled(self, mode: str) -> ReferencePeer | None:
        """A process with the compiled reference, called once so that it is compiled; None with the reason noted."""
        if self.job.device == "cpu" and mode in ("reduce-overhead", "max-autotune"):
            self.errors[mode] = NO_GRAPHS
            return None
        try:
            if self.job.device == "cpu" and mode == "max-autotune-no-cudagraphs" and not self._has_products():
                self.errors[mode] = NOTHING_TO_TUNE
                return None
            self.job.stage(f"compiling the reference with torch.compile ({mode})")
            arm = self.session.reference(self.job, self.task.source, mode)
            drawn = arm.draw(1)
            if drawn is None:
                raise ValueError("a plain draw always gives inputs")
            started = time.monotonic()
            with closing(drawn[0]):
                arm.call(drawn[0], timeout=COMPILE_LIMIT_S).close()
            self.build_s[mode] = time.monotonic() - started
            made = arm.ask("compiled", {})
        except (ProgramRefused, ProgramEnded) as error:
            self.session.forget(self.job, self.task.source, mode)
            self.errors[mode] = error.refusal.sentence
            return None
        if not made.get("graphs"):
            self.errors[mode] = "torch.compile fell back to eager: it made no graph"
            return None
        return arm

    def _has_products(self) -> bool:
        """Whether one forward holds floating point operations that torch's counter knows: matrix products and convolutions."""
        reference = self.session.reference(self.job, self.task.source)
        drawn = reference.draw(1)
        if drawn is None:
            raise ValueError("a plain draw always gives inputs")
        with closing(drawn[0]):
            return bool(reference.about("counts", drawn[0]).get("flops"))

    @contextlib.contextmanager
    def _device(self) -> Iterator[None]:
        """Nobody else of this machine's hands measures on the device meanwhile."""
        path = private_folder(config().runtime_dir) / f"measure-{self.job.device}.lock"
        fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            told = False
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not told:
                        self.job.stage("waiting: another measurement has the device")
                        told = True
                    if self.job.cancelled():
                        raise Cancelled("The job was cancelled.") from None
                    time.sleep(0.1)
            yield
        finally:
            os.close(fd)

    def _bench(
        self, reference: ReferencePeer, judge: JudgePeer, facts: Facts, arms: dict[str, Program]
    ) -> tuple[Bench, float | None]:
        """The bench with eager's own error as slack, and the candidate's error ratio on one draw. Raises WrongResult."""
        rtol = tolerances(self.protocol, self.job.precision)
        slack: list[float] = []
        ratio: float | None = None
        reference.weights().close()
        item = draw(reference)
        if item is None:
            raise ValueError("a plain draw always gives inputs")
        with closing(item.call, item.truth, item.inputs):
            own = judge.compare(rtol, self.protocol.ratio_reordered, item.eager, item.eager, item.truth)
            slack = [float(leaf.get("max_error_eager") or 0.0) for leaf in own["leaves"]]
            if CANDIDATE in arms:
                call = arms[CANDIDATE].call(item.inputs, restore=True)
                with closing(call):
                    if call.output is not None:
                        numbers = judge.compare(rtol, self.protocol.ratio_reordered, call.output, item.eager, item.truth)
                        if not accepted(numbers, None, self.protocol):
                            raise WrongResult(CANDIDATE, structural(numbers) or numeric(numbers, None, self.protocol))
                        ratios = [r for leaf in numbers["leaves"] if (r := leaf_ratio(leaf)) is not None]
                        ratio = max(ratios, default=None)
        bench = Bench(self.job, self.protocol, reference, arms, judge, rtol, slack, always_scale=facts.inputs_constant)
        return bench, ratio

    def _second(self, reference: ReferencePeer, judge: JudgePeer, facts: Facts) -> Bench:
        """Eager and the candidate once more, both in fresh processes."""
        self.job.stage("once more in fresh processes")
        if self.task.candidate is None:
            raise ValueError("there is no candidate to repeat")
        opening = Opening(self.job, self.task.candidate, self.task.target)
        with contextlib.ExitStack() as stack:
            try:
                eager = stack.enter_context(ReferencePeer.start(self.job, self.task.source))
            except BaseException:
                opening.abandon()
                raise
            candidate = stack.enter_context(opening.load(eager.facts["init_inputs"]))
            with closing(weights := eager.weights()):
                candidate.load_weights(weights)
            bench, _ = self._bench(eager, judge, facts, {EAGER: eager, CANDIDATE: candidate})
            bench.warm_up()
            bench.measure(max(3, self.protocol.rounds // 2))
            return bench

    # ---- the report --------------------------------------------------------------------------------------------------

    def _report(self, bench: Bench, facts: Facts, ratio: float | None, second: Bench | None) -> TimingReport:
        samples = bench.samples
        timings = {name: self._arm(name, s) for name, s in samples.items()}
        baselines = [name for name in timings if name != CANDIDATE]
        baseline = min(baselines, key=lambda name: timings[name].median_ms)
        compiled = [name for name in baselines if name != EAGER]
        best_compiled = min(compiled, key=lambda name: timings[name].median_ms) if compiled else None
        measured_noise = noise(samples[EAGER].rounds, self.protocol)
        common: dict[str, Any] = {
            "arms": tuple(timings.values()),
            "errors": self.errors,
            "baseline": baseline,
            "noise": measured_noise,
            "protocol": self.protocol.id,
            "facts": self._facts(bench),
        }
        if CANDIDATE not in samples:
            return TimingReport(**common, sentence=f"Eager takes {timings[EAGER].median_ms:.4g} ms.")

        def over(name: str) -> Interval:
            return paired_ratio(samples[name].medians, samples[CANDIDATE].medians, self.protocol)

        over_baseline = over(baseline)
        labels, reasons = self._doubts(bench, facts, ratio, second)
        speed = Speed.NOT_CLAIMED if reasons else speed_word(over_baseline, self.protocol, measured_noise)
        return TimingReport(
            **common,
            speed=speed,
            over_eager=over(EAGER),
            over_compile=over(best_compiled) if best_compiled else None,
            over_baseline=over_baseline,
            second_process_ms=median(second.samples[CANDIDATE].all) / 1e6 if second else None,
            sentence=_sentence(speed, over_baseline, baseline, reasons),
            labels=tuple(labels),
        )

    def _doubts(self, bench: Bench, facts: Facts, ratio: float | None, second: Bench | None) -> tuple[list[Label], list[str]]:
        """(labels, reasons why nothing may be claimed)."""
        labels: list[Label] = []
        reasons: list[str] = []

        def doubt(label: Label, reason: str) -> None:
            labels.append(label)
            reasons.append(reason)

        if facts.degenerate:
            doubt(Label.DEGENERATE, "a trivial program would pass as well")
        if facts.inputs_constant:
            labels.append(Label.INPUTS_CONSTANT)
        if precision_label(ratio, self.protocol) is Label.REDUCED_PRECISION and self.job.precision is Precision.AS_REFERENCE:
            doubt(Label.REDUCED_PRECISION, "it computes at a lower precision than the baseline")
        hidden, uncertain = bench.hidden_ns()
        own = median(bench.samples[CANDIDATE].all)
        if hidden > max(HIDDEN_FLOOR_NS, HIDDEN_SHARE * (own + hidden), uncertain):
            doubt(
                Label.CLOCKS_DISAGREE,
                f"a clock outside saw {hidden / 1e6:.3g} ms more of each call than the program's own process",
            )
        if second is not None:
            first_ratio = paired_ratio(bench.samples[EAGER].medians, bench.samples[CANDIDATE].medians, self.protocol)
            again = paired_ratio(second.samples[EAGER].medians, second.samples[CANDIDATE].medians, self.protocol)
            tolerance = AGREEMENT + sum(noise(b.samples[EAGER].rounds, self.protocol) or 0.0 for b in (bench, second))
            if not agree(first_ratio, again, tolerance):
                doubt(
                    Label.UNSTABLE_TIMING,
                    f"a second process gave {again.value:.2f}× over eager where the first gave {first_ratio.value:.2f}×",
                )
        return labels, reasons

    def _arm(self, name: str, samples: Samples) -> ArmTiming:
        values = [value / 1e6 for value in samples.all]
        interval = bootstrap([m / 1e6 for m in samples.medians], self.protocol.bootstrap_draws, self.protocol.confidence)
        return ArmTiming(
            arm=name,
            median_ms=median(values),
            low_ms=interval.low,
            high_ms=interval.high,
            p10_ms=percentile(values, 0.1),
            p90_ms=percentile(values, 0.9),
            samples=len(values),
            rounds=tuple(m / 1e6 for m in samples.medians),
            build_s=self.build_s.get(name),
        )

    def _facts(self, bench: Bench) -> dict[str, Any]:
        load = os.getloadavg()[0]
        return {
            "rounds": len(bench.samples[EAGER].rounds),
            "samples_per_round": len(bench.samples[EAGER].rounds[0]),
            "samples_compared": bench.compared,
            "samples_made": bench.calls,
            "samples_retaken": bench.retaken,
            "samples_disturbed": bench.disturbed,
            "threads": config().threads,
            "load_average": round(load, 2),
            "cache_evicted_bytes": evict_bytes(self.job.device),
            "outside_clock_gap_us": {name: round(median(s.gaps) / 1e3, 1) for name, s in bench.samples.items()},
        }


def _sentence(speed: Speed, ratio: Interval, baseline: str, reasons: list[str]) -> str:
    against = "eager" if baseline == EAGER else f"torch.compile ({baseline})"
    text = f"{ratio.value:.2f}× ({ratio.low:.2f} to {ratio.high:.2f}) against {against}"
    if reasons:
        return f"No speed is claimed ({'; '.join(reasons)}); measured {text}."
    words = {
        Speed.FASTER: f"Faster: {text}.",
        Speed.SLOWER: f"Slower: {text}.",
        Speed.NOT_DISTINGUISHABLE: f"Not distinguishable: {text}.",
    }
    return words.get(speed, f"Measured {text}.")
