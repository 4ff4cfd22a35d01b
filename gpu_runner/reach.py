"""What a right program's result rests on: how much of the time its own kernels take, whether they matter, other batch sizes.

Recorded for labels, no verdicts; the last thing asked of a candidate's process, since a program may die of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gpu_runner.contracts import Protocol
from gpu_runner.job import Job
from gpu_runner.judging import JudgePeer
from gpu_runner.peers import CandidatePeer, ReferencePeer, seed
from gpu_runner.probing import compared
from gpu_runner.seen import BatchSeen, CoverageSeen, Evidence, Numbers
from gpu_runner.values import ProgramEnded, ProgramRefused, Value, closing

COVERAGE_CALLS = 3
BATCHES = ("one", "odd", "even")
_ELSEWHERE = re.compile(r"\b(triton|cupy|numba|load_inline|cpp_extension|load_library)\b")  # kernels we do not see called


class Reach:
    """The questions in order. `text` is the program's; what is found goes into `evidence`, and `tell` shows it."""

    def __init__(
        self,
        job: Job,
        protocol: Protocol,
        reference: ReferencePeer,
        candidate: CandidatePeer,
        judge: JudgePeer,
        evidence: Evidence,
        text: str,
        tell: Callable[[], None],
    ) -> None:
        self.text = text
        self.job, self.protocol, self.evidence, self._tell = job, protocol, evidence, tell
        self.reference, self.candidate, self.judge = reference, candidate, judge
        self.rtol = reference.tolerances(protocol)

    def own_kernels(self) -> bool:
        """How much of the time they take, and whether they matter. False when the program failed in it."""
        try:
            self._coverage()
            self._tell()
            seen = self.evidence.coverage
            if seen is not None and seen.own_calls:
                self._decoration()
                self._tell()
        except (ProgramRefused, ProgramEnded) as error:
            if error.side != "candidate":
                raise
            return False
        return True

    def other_batches(self) -> None:
        """A contract names one shape, so these are told and not asked."""
        try:
            self._other_batches()
        except ProgramEnded as error:
            if error.side != "candidate":
                raise
        self._tell()

    def _coverage(self) -> None:
        drawn = self.reference.draw(seed())
        if drawn is None:
            return
        with closing(drawn[0]):
            total, own, calls, hidden = self.candidate.coverage(drawn[0], COVERAGE_CALLS)
            if self.candidate.kernels:
                self.evidence.launches = self.candidate.launched(drawn[0])
        elsewhere = _ELSEWHERE.search(self.text) is not None
        self.evidence.coverage = CoverageSeen(total, own, calls, hidden, elsewhere, self.job.device != "cpu")

    def _decoration(self) -> None:
        """Own functions do nothing for one call: if the result is right all the same, it does not come from them."""
        drawn = self.reference.draw(seed())
        if drawn is None:
            return
        with closing(drawn[0]):
            self.candidate.mute(True)
            self.evidence.muted = self._numbers(drawn[0])
            self.candidate.mute(False)

    def _other_batches(self) -> None:
        batches = self.evidence.batches = []
        for kind in BATCHES:
            drawn = self.reference.draw(seed(), batch=kind)
            if drawn is None:
                continue
            with closing(drawn[0]):
                seen = BatchSeen(int(drawn[1]["batch"]))
                try:
                    seen.numbers = self._numbers(drawn[0])
                except (ProgramRefused, ProgramEnded) as error:
                    seen.by = "reference" if error.side == "reference" else "candidate"
                    seen.said = error.refusal.sentence[:200]
                    if isinstance(error, ProgramEnded):
                        raise
                finally:
                    batches.append(seen)

    def _numbers(self, inputs: Value) -> Numbers | None:
        """The candidate beside eager."""
        expected = self.reference.call(inputs, restore=True)
        with closing(expected):
            if expected.output is None:
                return None
            call = self.candidate.call(inputs, poison=expected.output.sizes, restore=True)
            with closing(call):
                if call.output is None:
                    return None
                ratio = 1.0 + self.protocol.ratio_reordered
                return compared(self.reference, self.judge, inputs, self.rtol, ratio, call.output, expected.output)
