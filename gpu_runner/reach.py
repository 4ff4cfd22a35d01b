"""What a right program's result rests on: how much of the time its own kernels take, whether they matter, other batch sizes.

Recorded for labels, no verdicts; the last thing asked of a candidate's process, since a program may die of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gpu_runner.contracts import Protocol
from gpu_runner.peers import CandidatePeer, Job, JudgePeer, ReferencePeer, seed
from gpu_runner.seen import BatchSeen, CoverageSeen, Evidence, Numbers
from gpu_runner.values import ProgramEnded, ProgramRefused, closing

COVERAGE_CALLS = 3
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

    def run(self) -> None:
        try:
            self._coverage()
            self._tell()
            if self.protocol.structured_draws:
                self._other_batch()
                self._tell()
            seen = self.evidence.coverage
            if seen is not None and seen.own_calls:
                self._decoration()
                self._tell()
        except (ProgramRefused, ProgramEnded) as error:
            if error.side != "candidate":
                raise

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
        self.candidate.mute(True)
        found = self._numbers("")
        self.candidate.mute(False)
        self.evidence.muted = found[0] if found else None

    def _other_batch(self) -> None:
        """Half of the batch, where the reference takes it: a contract names one shape, so this is told and not asked."""
        seen = BatchSeen("half of the batch")
        try:
            found = self._numbers("half-batch")
            if found:
                seen.numbers, seen.size = found
        except ProgramRefused as error:
            seen.by, seen.said = "reference" if error.side == "reference" else "candidate", error.refusal.sentence[:200]
        self.evidence.batches.append(seen)

    def _numbers(self, variant: str) -> tuple[Numbers, int] | None:
        drawn = self.reference.draw(seed(), variant=variant)
        if drawn is None:
            return None
        with closing(drawn[0]):
            expected = self.reference.call(drawn[0], restore=True)
            with closing(expected):
                if expected.output is None:
                    return None
                call = self.candidate.call(drawn[0], poison=expected.output.sizes, restore=True)
                with closing(call):
                    if call.output is None:
                        return None
                    ratio = 1.0 + self.protocol.ratio_reordered
                    numbers = self.judge.compare(self.rtol, ratio, call.output, expected.output)
        return numbers, _batch(drawn[0].manifest["leaves"])


def _batch(leaves: list[dict[str, object]]) -> int:
    """The first dimension of the first tensor that has one."""
    shapes = [leaf["shape"] for leaf in leaves if leaf["kind"] == "tensor" and leaf["shape"]]
    return int(shapes[0][0]) if shapes else 0  # type: ignore[index]
