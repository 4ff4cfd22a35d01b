"""A result was wrong: is it that of a known shortcut? Asked only then, so it may cost a few calls."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpu_runner.contracts import Protocol
from gpu_runner.judging import JudgePeer
from gpu_runner.naming import same_numbers
from gpu_runner.peers import CandidatePeer, Program, ReferencePeer
from gpu_runner.probing import Drawn, seen_of
from gpu_runner.seen import AskedAgain, Inquest, Numbers
from gpu_runner.values import Call, ProgramEnded, ProgramRefused, Value, closing
from gpu_runner.verdict import accepted

PATIENCE_S = 0.3  # how long work that was put off is waited for
MORE_CALLS = 8  # enough for a program that batches calls to do them, or for an unstable one to change its mind


@dataclass
class Inquiry:
    """About a `call` whose result is not that of `item`. `previous`: the draw before; `weights`: seeds of the weight draws."""

    reference: ReferencePeer
    candidate: CandidatePeer
    judge: JudgePeer
    protocol: Protocol
    rtol: dict[str, float]
    timeout: float
    item: Drawn
    call: Call
    previous: Drawn | None
    weights: Sequence[int | None]

    def explain(self) -> Inquest:
        """What the result equals instead, and how it behaves when it is asked for again."""
        found = Inquest()
        if self.call.output is None:
            return found
        try:
            found.later = self._later()
            found.against = self._against(self.call.output, found)
            known = any(same_numbers(numbers) for numbers in found.against.values())
            if not known and not (found.later is not None and accepted(found.later, None, self.protocol)):
                self._asked_again(self.call.output, found)
        except (ProgramRefused, ProgramEnded) as error:
            if error.side != "candidate":
                raise
        return found

    def _numbers(self, output: Value, eager: Value, **options: Any) -> Numbers:
        return self.judge.compare(self.rtol, self.protocol.ratio_reordered, output, eager, **options)

    def _later(self) -> Numbers | None:
        """The same result after a while."""
        time.sleep(PATIENCE_S)
        later = self.candidate.collect(Call(ns=0, wall_ns=0))
        with closing(later):
            return None if later.output is None else self._numbers(later.output, self.item.eager, truth=self.item.truth)

    def _against(self, output: Value, found: Inquest) -> dict[str, Numbers]:
        """Held against the input, the result of the draw before, and that for replaced weights."""
        others: dict[str, Value] = {"input": self.item.inputs}
        if self.previous is not None:
            others["previous"] = self.previous.eager
        with contextlib.ExitStack() as stack:
            if len(self.weights) > 1:
                stale = self._with_old_weights(self.reference)
                stack.enter_context(closing(stale))
                if stale.output is not None:
                    others["old_weights"] = stale.output
                    found.restored = self._restored(stale.output)
            reply = self._numbers(output, self.item.eager, against=others)
        return dict(reply.get("against", {}))

    def _restored(self, stale: Value) -> Numbers | None:
        """The candidate with the weights that were replaced, beside eager's results with them."""
        back = self._with_old_weights(self.candidate)
        with closing(back):
            return None if back.output is None else self._numbers(back.output, stale)

    def _with_old_weights(self, program: Program) -> Call:
        """A program's results with the weights that were replaced last; afterwards it has the present ones again."""
        try:
            self._load(program, self.weights[-2])
            return program.call(self.item.inputs, timeout=self.timeout, poison=self.item.eager.sizes, restore=True)
        finally:
            self._load(program, self.weights[-1])

    def _load(self, program: Program, number: int | None) -> None:
        with closing(weights := self.reference.weights(number)):
            if isinstance(program, CandidatePeer):
                program.load_weights(weights)

    def _asked_again(self, output: Value, found: Inquest) -> None:
        """Further calls on the same content: they may write the result of an earlier one, or give another result."""
        options = {"poison": self.item.eager.sizes, "restore": True}
        for _ in range(MORE_CALLS):
            again = self.candidate.call(self.item.inputs, timeout=self.timeout, watch=True, **options)
            with closing(again):
                numbers = None if again.output is None else self._numbers(again.output, output)
                found.again.append(AskedAgain(seen_of("candidate", again).overwritten, numbers))
                if numbers is None or found.again[-1].overwritten:
                    return
