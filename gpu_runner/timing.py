"""Times the baselines and the candidate side by side. What may be claimed from it is `speed`."""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from typing import Any

from gpu_runner import ahead, baselines, turns
from gpu_runner.compiled import Compiled
from gpu_runner.config import config
from gpu_runner.contracts import TimeTask, TimingReport, Verdict
from gpu_runner.device import device_info, evict_bytes
from gpu_runner.doubts import interferes
from gpu_runner.evidence import recorded
from gpu_runner.job import Job
from gpu_runner.judging import JudgePeer
from gpu_runner.peers import CandidatePeer, Program, ReferencePeer
from gpu_runner.probing import Facts, compared, draw
from gpu_runner.rounds import MIN_ROUNDS, Bench, cores, drop_failing
from gpu_runner.sampling import WrongResult
from gpu_runner.session import NotBuilt, Opening, Session
from gpu_runner.speed import known_holds, timing_report
from gpu_runner.stats import median
from gpu_runner.timed import CANDIDATE, EAGER, Known, SpeedEvidence, WrongCall
from gpu_runner.values import ProgramEnded, ProgramRefused, Value, closing
from gpu_runner.verdict import accepted, leaf_ratio, usual_error


def perform_timing(job: Job, task: TimeTask, session: Session) -> TimingReport:
    """A whole timing: processes, warm-up, rounds, and a second process where the protocol wants one."""
    opening = Opening(job, task.candidate, task.target) if task.candidate is not None else None
    timer = Timer(job, task, session)
    candidate: CandidatePeer | None = None
    try:
        reference, judge = session.peers(job, task.source)
        with turns.beside(job):
            facts = session.facts(job, task.source, task.protocol)
            session.counts(job, task.source)
        if opening is not None:
            candidate = opening.load(reference.facts["init_inputs"])
            with closing(weights := reference.weights()):
                candidate.load_weights(weights)
        timer.run(reference, judge, facts, candidate)
    except NotBuilt as error:
        return TimingReport(verdict=Verdict.BUILD_FAILED, sentence=str(error), protocol=task.protocol.id)
    except WrongResult as error:
        timer.evidence.wrong = error.call
    except (ProgramRefused, ProgramEnded) as error:
        if error.side != CANDIDATE:
            session.forget(job, task.source)
        timer.evidence.trouble = error.trouble
    finally:
        if candidate is not None:
            candidate.close()
        elif opening is not None:
            opening.abandon()
    report = timing_report(timer.evidence)
    return report.model_copy(update={"evidence": recorded(timer.evidence)}) if task.evidence else report


class Timer:
    """One timing task. What it finds is `evidence`."""

    def __init__(self, job: Job, task: TimeTask, session: Session) -> None:
        self.job, self.task, self.session = job, task, session
        self.protocol = task.protocol
        self.evidence = SpeedEvidence(protocol=task.protocol, precision=task.precision)
        self.errors = self.evidence.errors

    def run(self, reference: ReferencePeer, judge: JudgePeer, facts: Facts, candidate: CandidatePeer | None) -> None:
        """Raises WrongResult, ProgramRefused and ProgramEnded for what the programs do."""
        program = self.session.key(self.job, self.task.source)
        ahead.end(self.session, keep=program)  # it may be using what is ended next
        self.session.keep_only(program)
        arms: dict[str, Program] = {EAGER: reference}
        key = baselines.key(program, self.protocol, device_info(self.task.target))
        known = baselines.load(key) if self._modes else None
        if known is None:
            arms |= self._compiled()
        if candidate is not None:
            arms[CANDIDATE] = candidate
        self.evidence.degenerate, self.evidence.inputs_constant = facts.degenerate, facts.inputs_constant
        must_read = self.session.counts(self.job, self.task.source).get("must_read")
        self.evidence.must_read = must_read if isinstance(must_read, int) and 0 < must_read < 1 << 50 else 0
        with turns.beside(self.job):
            bench, self.evidence.error_ratio = self._bench(reference, judge, facts, arms)
        with contextlib.closing(bench), turns.alone(self.job):
            self.session.learn_ceilings(self.job, self.task.target)
            self._measure(bench)
            facts_of_now = self._facts(bench)
        if candidate is not None:
            candidate.close()  # nobody watches what it does while others are measured from here on
        self._forget_modes()
        self.evidence.bandwidth_bps = device_info(self.task.target).bandwidth_bps
        self.evidence.samples, self.evidence.facts, self.evidence.busy = bench.samples, facts_of_now, bench.busy
        self.evidence.conditions, self.evidence.cores, self.evidence.drift = bench.conditions, cores(), bench.drift
        if self._modes and known is None and not interferes(bench.busy):
            baselines.save(key, self._known(bench, self.errors))
        self.evidence.known = known
        if known is not None and not known_holds(self.evidence):
            self.job.stage("eager is not as fast as when the baselines were measured: measuring them again")
            self.evidence.known = self._baselines(reference, judge, facts)
            baselines.save(key, self.evidence.known)
        if candidate is not None and self.protocol.second_process:
            self.evidence.second = self._second(reference, judge, facts).samples

    def _measure(self, bench: Bench) -> None:
        self.job.stage("warming up")
        drop_failing(bench, bench.warm_up, self.errors)
        self.job.stage("timing " + ", ".join(bench.arms))
        drop_failing(bench, bench.measure, self.errors)

    def _forget_modes(self) -> None:
        """They are known from here on, and hold much memory."""
        for mode in self._modes:
            self.session.forget(self.job, self.task.source, mode)

    @property
    def _modes(self) -> list[str]:
        return [mode for mode in self.protocol.arms if mode != EAGER]

    def _baselines(self, reference: ReferencePeer, judge: JudgePeer, facts: Facts) -> Known:
        """Eager and the compiled arms beside each other, without the candidate."""
        arms = {EAGER: reference, **self._compiled()}
        with turns.beside(self.job):
            bench, _ = self._bench(reference, judge, facts, arms)
        with contextlib.closing(bench), turns.alone(self.job):
            self._measure(bench)
        self._forget_modes()
        known = self._known(bench, self.errors)
        self.errors.clear()  # they are the known ones'
        return known

    def _known(self, bench: Bench, errors: dict[str, str]) -> Known:
        samples = {name: arm for name, arm in bench.samples.items() if name != CANDIDATE}
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        return Known(samples, {mode: errors[mode] for mode in self._modes if mode in errors}, dict(self.evidence.build_s), now)

    # ---- arms --------------------------------------------------------------------------------------------------------

    def _compiled(self) -> dict[str, Program]:
        """A process of each mode of torch.compile that has one; why the others have none is noted."""
        made = ahead.taken(self.job, self.task.source, self.session, self._modes)
        if made is None:
            made = Compiled(self.job, self.task.source, self.session)
            made.run(self._modes)
        self.errors.update(made.errors)
        self.evidence.build_s.update(made.build_s)
        return dict(made.arms)

    def _bench(
        self, reference: ReferencePeer, judge: JudgePeer, facts: Facts, arms: dict[str, Program]
    ) -> tuple[Bench, float | None]:
        """The bench with eager's own error as slack, and the candidate's error ratio on one draw. Raises WrongResult."""
        rtol = reference.tolerances(self.protocol)
        slack: list[float] = []
        ratio: float | None = None
        reference.weights().close()
        before = reference.buffers() if reference.facts.get("buffers") else None
        item = draw(reference)
        if item is None:
            raise ValueError("a plain draw always gives inputs")
        with closing(item.call, item.truth, item.inputs, before):
            changed = self._changes_buffers(reference, judge, before)
            own = judge.compare(rtol, self.protocol.ratio_reordered, item.eager, item.eager, item.truth)
            slack = [float(leaf.get("max_error_eager") or 0.0) for leaf in own["leaves"]]
            if CANDIDATE in arms:
                call = arms[CANDIDATE].call(item.inputs, restore=True)
                with closing(call):
                    if call.output is not None:
                        pair = rtol, self.protocol.ratio_reordered, call.output, item.eager, item.truth
                        numbers = compared(reference, judge, item.inputs, *pair)
                        if not accepted(numbers, None, self.protocol):
                            raise WrongResult(WrongCall(CANDIDATE, numbers, first=True))
                        ratios = [r for leaf in numbers["leaves"] if (r := leaf_ratio(leaf)) is not None]
                        ratio = max(ratios, default=None)
        bench = Bench(self.job, self.protocol, reference, arms, judge, rtol, slack, always_scale=facts.inputs_constant)
        bench.stateful = facts.mutates_inputs or changed
        bench.usual = [usual_error(leaf) or 0.0 for leaf in own["leaves"]]
        return bench, ratio

    def _changes_buffers(self, reference: ReferencePeer, judge: JudgePeer, before: Value | None) -> bool:
        """Whether its last call left them with another content than `before`."""
        if before is None:
            return False
        with closing(after := reference.buffers()):
            numbers = judge.compare(reference.tolerances(self.protocol), 0.0, after, before)
        return any(leaf.get("bits_equal") is False for leaf in numbers["leaves"])

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
            with turns.beside(self.job):
                bench, _ = self._bench(eager, judge, facts, {EAGER: eager, CANDIDATE: candidate})
            with contextlib.closing(bench), turns.alone(self.job):
                bench.warm_up()
                bench.measure(max(MIN_ROUNDS, self.protocol.rounds // 2))
            return bench

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
