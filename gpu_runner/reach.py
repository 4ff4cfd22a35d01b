"""What a right program's result rests on: how much of the time its own kernels take, whether they matter, other batch sizes.

Labels, no verdicts; the last thing asked of a candidate's process, since a program may die of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gpu_runner.contracts import CheckRow, HackClass, Protocol
from gpu_runner.peers import CandidatePeer, Job, JudgePeer, ReferencePeer, seed
from gpu_runner.values import ProgramEnded, ProgramRefused, closing
from gpu_runner.verdict import Evidence, accepted

COVERAGE_CALLS = 3
_ELSEWHERE = re.compile(r"\b(triton|cupy|numba|load_inline|cpp_extension|load_library)\b")  # kernels we do not see called


class Reach:
    """The questions in order. `text` is the program's; `show` takes each row; what is found goes into `evidence`."""

    def __init__(
        self,
        job: Job,
        protocol: Protocol,
        reference: ReferencePeer,
        candidate: CandidatePeer,
        judge: JudgePeer,
        evidence: Evidence,
        text: str,
        show: Callable[[CheckRow], None],
    ) -> None:
        self.text = text
        self.job, self.protocol, self.evidence, self._show = job, protocol, evidence, show
        self.reference, self.candidate, self.judge = reference, candidate, judge
        self.rtol = reference.tolerances(protocol)

    def run(self) -> None:
        try:
            calls = self._coverage()
            if self.protocol.structured_draws:
                self._other_batch()
            if calls:
                self._decoration()
        except (ProgramRefused, ProgramEnded) as error:
            if error.side != "candidate":
                raise

    def _coverage(self) -> int:
        drawn = self.reference.draw(seed())
        if drawn is None:
            return 0
        with closing(drawn[0]):
            share, calls, unseen = self.candidate.coverage(drawn[0], COVERAGE_CALLS)
        if unseen or (not calls and _ELSEWHERE.search(self.text)):
            self._row("time in its own kernels", note="its kernels are called in a way that cannot be measured")
            return 0
        if share is not None and (self.job.device == "cpu" or not calls):
            # On a GPU the time around a call is not the kernel's; that nothing was called is as true there.
            self.evidence.coverage = share if calls else 0.0
            self._row(
                "time in its own kernels",
                f"{share:.0%} of the forward" if calls else "none",
                "" if calls else "no own kernel ran",
            )
        return calls

    def _decoration(self) -> None:
        """Own functions do nothing for one call: if the result is right all the same, it does not come from them."""
        self.candidate.mute(True)
        right = self._right("")
        self.candidate.mute(False)
        if right:
            self.evidence.decorative, self.evidence.coverage = True, 0.0
            self._row("its own kernels matter", "no", "the result is the same when they do nothing")
        elif right is not None:
            self._row("its own kernels matter", "yes")

    def _other_batch(self) -> None:
        """Half of the batch, where the reference takes it: a contract names one shape, so this is told and not asked."""
        name = "half of the batch"
        try:
            right = self._right("half-batch")
        except ProgramRefused as error:
            said = "the reference does not take it" if error.side == "reference" else "no: the program says so"
            self._row(name, said, error.refusal.sentence[:200])
            return
        if right is None:
            self._row(name, note="the inputs have no batch in common")
            return
        self._row(name, "right" if right else "wrong", "" if right else "the program is made for the declared shapes alone")
        if not right:
            self.evidence.suspects = (*self.evidence.suspects, HackClass.SHAPE_OR_SEED_SPECIAL_CASE)

    def _right(self, variant: str) -> bool | None:
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
                    numbers = self.judge.compare(self.rtol, 1.0 + self.protocol.ratio_reordered, call.output, expected.output)
                    return accepted(numbers, None, self.protocol)

    def _row(self, name: str, value: str = "", note: str = "") -> None:
        self._show(CheckRow(group="reach", name=name, value=value, passed=None, note=note))
