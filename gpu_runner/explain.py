"""A result was wrong: is it that of a known shortcut? Asked only then, so it may cost a few calls."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpu_runner.contracts import Protocol
from gpu_runner.peers import CandidatePeer, JudgePeer, ReferencePeer
from gpu_runner.probing import Drawn
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

    def explain(self) -> dict[str, bool]:
        """What the result equals instead, and how it behaves when it is asked for again."""
        if self.call.output is None:
            return {}
        found: dict[str, bool] = {}
        try:
            found["later"] = self._is_right_later()
            found |= self._is_another(self.call.output)
            if not any(found.values()):
                found |= self._asked_again(self.call.output)
        except (ProgramRefused, ProgramEnded) as error:
            if error.side != "candidate":
                raise
        return found

    def _numbers(self, output: Value, eager: Value, **options: Any) -> dict[str, Any]:
        return self.judge.compare(self.rtol, self.protocol.ratio_reordered, output, eager, **options)

    def _is_right_later(self) -> bool:
        time.sleep(PATIENCE_S)
        later = self.candidate.collect(Call(ns=0, wall_ns=0))
        with closing(later):
            if later.output is None:
                return False
            numbers = self._numbers(later.output, self.item.eager, truth=self.item.truth)
            return accepted(numbers, None, self.protocol)

    def _is_another(self, output: Value) -> dict[str, bool]:
        """Whether it is the input, the result of the draw before, or that for replaced weights."""
        others: dict[str, Value] = {"input": self.item.inputs}
        if self.previous is not None:
            others["previous"] = self.previous.eager
        stale = self._with_old_weights() if len(self.weights) > 1 else None
        if stale is not None and stale.output is not None:
            others["old_weights"] = stale.output
        with closing(stale):
            reply = self._numbers(output, self.item.eager, against=others)
        return {str(k): v is True for k, v in reply.get("same_as", {}).items()}

    def _with_old_weights(self) -> Call:
        """Eager's results with the weights that were replaced last."""
        self.reference.weights(self.weights[-2]).close()
        try:
            return self.reference.call(self.item.inputs, restore=True)
        finally:
            self.reference.weights(self.weights[-1]).close()

    def _asked_again(self, output: Value) -> dict[str, bool]:
        """Whether further calls on the same content write the result of an earlier one, or give another result."""
        unstable = False
        options = {"poison": self.item.eager.sizes, "restore": True}
        for _ in range(MORE_CALLS):
            again = self.candidate.call(self.item.inputs, timeout=self.timeout, watch=True, **options)
            with closing(again):
                if again.facts.get("overwritten"):
                    return {"with_a_later_call": True}
                if again.output is None:
                    return {}
                numbers = self._numbers(again.output, output)
                # Memory that nobody wrote is whatever it is; only what was computed can be unstable.
                finite = all(leaf.get("finite", True) and not leaf.get("nonfinite") for leaf in numbers["leaves"])
                unstable = unstable or (finite and not accepted(numbers, None, self.protocol))
        return {"unstable": unstable}
