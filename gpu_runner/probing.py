"""What must be known of a reference before anything is claimed on it: whether a trivial program would pass as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_runner.contracts import Protocol
from gpu_runner.peers import JudgePeer, ReferencePeer, seed, tolerances
from gpu_runner.values import Call, ProgramRefused, Value, closing
from gpu_runner.verdict import accepted, leaf_signal_error

VARIANTS = ("sign-mixed", "heavy-tailed", "piecewise-constant", "small")
REBUILD_SEED = 77  # constructing again under it must give other weights
RANDOMISE_SEED = 78


@dataclass(frozen=True)
class Facts:
    """`nulls`: trivial programs that pass. `verifiable`: eager's own rounding leaves visible what the inputs change."""

    inputs_constant: bool
    nulls: tuple[str, ...]
    verifiable: bool
    mutates_inputs: bool

    @property
    def degenerate(self) -> bool:
        return bool(self.nulls) or not self.verifiable


@dataclass
class Drawn:
    """One draw with the reference's answers. `truth` is the fp64 result, None where there is none."""

    inputs: Value
    call: Call
    truth: Value | None
    seed: int
    prints: list[int]
    variant: str = ""
    double_s: float = 0.0  # how long the fp64 twin took

    @property
    def eager(self) -> Value:
        if self.call.output is None:
            raise ValueError("the call was not collected")
        return self.call.output

    def close(self) -> None:
        self.inputs.close()
        self.call.close()
        if self.truth is not None:
            self.truth.close()


def draw(
    reference: ReferencePeer, *, variant: str = "", double: bool = True, watch: bool = False, number: int | None = None
) -> Drawn | None:
    """Fresh inputs under a fresh seed, eager's results, and the fp64 ones. None when a variant changes nothing."""
    number = seed() if number is None else number
    drawn = reference.draw(number, variant=variant, prints=watch)
    if drawn is None:
        return None
    inputs, reply = drawn
    try:
        call = reference.call(inputs, watch=watch, restore=True)
        truth, _, double_s = reference.double(inputs) if double else (None, "", 0.0)
    except BaseException:
        inputs.close()
        raise
    return Drawn(inputs, call, truth, number, list(reply.get("prints", [])), variant, double_s)


def probe(reference: ReferencePeer, judge: JudgePeer, protocol: Protocol, first: Drawn | None = None) -> Facts:
    """Find out. `first` is a draw that is already there (collected with `watch`)."""
    rtol = tolerances(protocol, reference.job.precision)
    ratio = protocol.ratio_reordered
    judge.reset()
    reference.weights().close()
    own = first is None
    one = first or draw(reference, watch=True)
    two = draw(reference, watch=True)
    if one is None or two is None:
        raise ValueError("a plain draw always gives inputs")
    values: dict[str, Value] = {}
    other: Call | None = None
    try:
        numbers = {}
        for item in (one, two):
            numbers = judge.compare(rtol, ratio, item.eager, item.eager, item.truth, group="probe")
        signals = judge.signal("probe")
        verifiable = _verifiable(numbers, signals, protocol)
        values = {"eager": one.eager, "inputs": one.inputs, "other_input": two.eager}
        if one.truth is not None:
            values["truth"] = one.truth
        if protocol.null_candidates:
            if reference.facts.get("parameters"):
                other = _with_other_weights(reference, one)
                if other is not None and other.output is not None:
                    values["other_weights"] = other.output
            nulls = _passing(judge, rtol, protocol, values, signals)
            if nulls:
                nulls = _still_passing(reference, judge, protocol, rtol, nulls)
        else:
            nulls = ()
        return Facts(
            inputs_constant=bool(one.prints) and one.prints == two.prints,
            nulls=nulls,
            verifiable=verifiable,
            mutates_inputs=bool(one.call.facts.get("changed_inputs")),
        )
    finally:
        if other is not None:
            other.close()
        two.close()
        if own:
            one.close()
        judge.reset()


def _with_other_weights(reference: ReferencePeer, one: Drawn) -> Call | None:
    """Eager's results of the same inputs with weights of another construction, nothing left trivial."""
    reference.weights(seed=RANDOMISE_SEED, rebuild=REBUILD_SEED).close()
    try:
        return reference.call(one.inputs)
    finally:
        reference.weights().close()


def _verifiable(numbers: dict[str, Any], signals: list[float | None], protocol: Protocol) -> bool:
    """Whether eager's own rounding leaves the signal visible in at least one result (or there is an exact one)."""
    seen = []
    for leaf, signal in zip(numbers["leaves"], signals, strict=False):
        if leaf.get("exact"):
            return True
        if leaf.get("rmse_eager") is None:
            continue
        error = leaf_signal_error(leaf, signal)
        limit = protocol.signal_error.get(leaf["dtype"][1], 0.05)
        seen.append(error is not None and error <= limit)
    return not seen or any(seen)


def _passing(
    judge: JudgePeer, rtol: dict[str, float], protocol: Protocol, values: dict[str, Value], signals: list[float | None] | None
) -> tuple[str, ...]:
    answers = judge.nulls(rtol, protocol.ratio_reordered, values)
    return tuple(name for name, numbers in answers.items() if accepted(numbers, signals, protocol))


def _still_passing(
    reference: ReferencePeer, judge: JudgePeer, protocol: Protocol, rtol: dict[str, float], nulls: tuple[str, ...]
) -> tuple[str, ...]:
    """Those that also pass on structured inputs. `other-weights` and `other-input` were computed, and stand."""
    left = list(nulls)
    for variant in VARIANTS:
        try:
            item = draw(reference, variant=variant)
        except ProgramRefused:
            continue  # the reference does not take such inputs
        if item is None:
            break
        with closing(item.call, item.truth, item.inputs):
            values = {"eager": item.eager, "inputs": item.inputs} | ({"truth": item.truth} if item.truth else {})
            passing = _passing(judge, rtol, protocol, values, None)
        left = [name for name in left if name in passing or name.startswith("other-")]
    return tuple(left)
