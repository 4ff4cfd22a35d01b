"""A result was wrong: is it that of a known shortcut? Asked only then, so it may cost a few calls."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gpu_runner.contracts import Protocol
from gpu_runner.peers import CandidatePeer, JudgePeer, ReferencePeer
from gpu_runner.probing import Drawn
from gpu_runner.values import Call, ProgramEnded, ProgramRefused, Value, closing
from gpu_runner.verdict import accepted

PATIENCE_S = 0.3  # how long work that was put off is waited for
MORE_CALLS = 8  # enough for a program that batches calls to do them, or for an unstable one to change its mind


def explain(
    reference: ReferencePeer,
    candidate: CandidatePeer,
    judge: JudgePeer,
    protocol: Protocol,
    rtol: dict[str, float],
    item: Drawn,
    call: Call,
    previous: Drawn | None,
    weights: Sequence[int | None],
    timeout: float,
) -> dict[str, bool]:
    """What the wrong result of `call` equals instead, and how it behaves. `weights`: seeds of the weight draws so far."""
    ratio = protocol.ratio_reordered
    if call.output is None:
        return {}

    def right(output: Value | None) -> bool:
        return output is not None and accepted(judge.compare(rtol, ratio, output, item.eager, item.truth), None, protocol)

    found: dict[str, bool] = {}
    try:
        time.sleep(PATIENCE_S)
        later = candidate.collect(Call(ns=0, wall_ns=0))
        with closing(later):
            found["later"] = right(later.output)
        others: dict[str, Value] = {"input": item.inputs}
        if previous is not None:
            others["previous"] = previous.eager
        stale = _with_old_weights(reference, item, weights) if len(weights) > 1 else None
        if stale is not None and stale.output is not None:
            others["old_weights"] = stale.output
        with closing(stale):
            reply = judge.compare(rtol, ratio, call.output, item.eager, against=others)
            found |= {str(k): v is True for k, v in reply.get("same_as", {}).items()}
        if not any(found.values()):
            found |= _asked_again(candidate, judge, protocol, rtol, item, call, timeout)
    except (ProgramRefused, ProgramEnded) as error:
        if error.side != "candidate":
            raise
    return found


def _with_old_weights(reference: ReferencePeer, item: Drawn, weights: Sequence[int | None]) -> Call:
    """Eager's results with the weights that were replaced last."""
    reference.weights(weights[-2]).close()
    try:
        return reference.call(item.inputs, restore=True)
    finally:
        reference.weights(weights[-1]).close()


def _asked_again(
    candidate: CandidatePeer,
    judge: JudgePeer,
    protocol: Protocol,
    rtol: dict[str, float],
    item: Drawn,
    call: Call,
    timeout: float,
) -> dict[str, bool]:
    """Whether further calls on the same content write the result of an earlier one, or give another result."""
    unstable = False
    for _ in range(MORE_CALLS):
        again = candidate.call(item.inputs, timeout=timeout, watch=True, restore=True, poison=item.eager.sizes)
        with closing(again):
            if again.facts.get("overwritten"):
                return {"with_a_later_call": True}
            if again.output is None or call.output is None:
                return {}
            numbers = judge.compare(rtol, protocol.ratio_reordered, again.output, call.output)
            # Memory that nobody wrote is whatever it is; only what was computed can be unstable.
            finite = all(leaf.get("finite", True) and not leaf.get("nonfinite") for leaf in numbers["leaves"])
            unstable = unstable or (finite and not accepted(numbers, None, protocol))
    return {"unstable": unstable}
