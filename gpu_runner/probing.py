"""What must be known of a reference before anything is claimed on it: whether a trivial program would pass as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_runner import degeneracy
from gpu_runner.contracts import Protocol, Refusal
from gpu_runner.judging import JudgePeer
from gpu_runner.peers import ReferencePeer, seed
from gpu_runner.seen import CallSeen, NullDraw, Numbers, ReferenceSeen
from gpu_runner.tolerances import tolerances
from gpu_runner.values import Call, Forged, ProgramRefused, Value, closing

VARIANTS = ("sign-mixed", "heavy-tailed", "piecewise-constant", "small")
REBUILD_SEED = 77  # constructing again under it must give other weights
RANDOMISE_SEED = 78


@dataclass(frozen=True)
class Facts:
    """What was seen of a reference, and the words over it under one protocol.

    `nulls`: trivial programs that pass. `verifiable`: eager's own rounding leaves visible what the inputs change.
    """

    seen: ReferenceSeen
    protocol: Protocol

    @property
    def nulls(self) -> tuple[str, ...]:
        return degeneracy.nulls(self.seen, self.protocol)

    @property
    def verifiable(self) -> bool:
        return degeneracy.verifiable(self.seen, self.protocol)

    @property
    def degenerate(self) -> bool:
        return degeneracy.degenerate(self.seen, self.protocol)

    @property
    def inputs_constant(self) -> bool:
        return degeneracy.inputs_constant(self.seen)

    @property
    def mutates_inputs(self) -> bool:
        return bool(self.seen.changed_inputs)


def seen_of(side: str, call: Call) -> CallSeen:
    """What a process said of a call. Raises Forged for what our code in it cannot have said."""
    try:
        return CallSeen.of(call.facts)
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise Forged(side, f"The {side}'s process described a call in a way that cannot be.") from error


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


def compared(
    reference: ReferencePeer,
    judge: JudgePeer,
    inputs: Value,
    rtol: dict[str, float],
    ratio: float,
    output: Value,
    eager: Value,
    truth: Value | None = None,
    *,
    group: str | None = None,
    slack: Sequence[float] | None = None,
) -> Numbers:
    """`judge.compare`; where integers differ, those are told apart that select an equal value by another index."""
    numbers = judge.compare(rtol, ratio, output, eager, truth, group=group, slack=slack)
    if any(leaf.get("mismatches") for leaf in numbers["leaves"]) and (chosen := reference.selections(inputs)) is not None:
        with closing(chosen.sources):
            numbers = judge.compare(rtol, ratio, output, eager, truth, slack=slack, selections=chosen)
    return numbers


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
    """Find out. `first` is a draw that is already there (collected with `watch`), of a program that gives the same each time.

    Raises ProgramRefused for one that does not.
    """
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
        if own and not reference.about("determinism", one.inputs).get("close"):
            raise ProgramRefused("reference", stochastic(reference))
        seen = ReferenceSeen(
            prints=[one.prints, two.prints], changed_inputs=seen_of("reference", one.call).changed_inputs or [],
            plain_weights=reference.facts.get("plain_weights") is True,
        )  # fmt: skip
        for item in (one, two):
            seen.own = judge.compare(rtol, ratio, item.eager, item.eager, item.truth, group="probe")
        seen.signals = judge.signal("probe")
        values = {"eager": one.eager, "inputs": one.inputs, "other_input": two.eager}
        if one.truth is not None:
            values["truth"] = one.truth
        if protocol.null_candidates:
            if reference.facts.get("parameters"):
                other = _with_other_weights(reference, one)
                if other is not None and other.output is not None:
                    values["other_weights"] = other.output
            seen.nulls.append(NullDraw("", judge.nulls(rtol, protocol.ratio_reordered, values)))
            if degeneracy.nulls(seen, protocol):
                _structured_nulls(reference, judge, protocol, rtol, seen)
        return Facts(seen, protocol)
    finally:
        if other is not None:
            other.close()
        two.close()
        if own:
            one.close()
        judge.reset()


def stochastic(reference: ReferencePeer) -> Refusal:
    """Of a program that gives other results each time."""
    cause = "its dropout is live in this mode" if reference.facts.get("dropout") else "it draws random numbers in forward"
    return Refusal(
        code="stochastic",
        sentence=f"Two runs on the same inputs gave different results ({cause}), so no program can be compared with it.",
        way_out="Use the mode eval, or take the randomness out of forward and pass it in as an input.",
    )


def _with_other_weights(reference: ReferencePeer, one: Drawn) -> Call | None:
    """Eager's results of the same inputs with weights of another construction, nothing left trivial."""
    reference.weights(seed=RANDOMISE_SEED, rebuild=REBUILD_SEED).close()
    try:
        return reference.call(one.inputs)
    finally:
        reference.weights().close()


def _structured_nulls(
    reference: ReferencePeer, judge: JudgePeer, protocol: Protocol, rtol: dict[str, float], seen: ReferenceSeen
) -> None:
    """Do those that pass on a declared draw pass on structured inputs too?"""
    for variant in VARIANTS:
        try:
            item = draw(reference, variant=variant)
        except ProgramRefused:
            continue  # the reference does not take such inputs
        if item is None:
            break
        with closing(item.call, item.truth, item.inputs):
            values = {"eager": item.eager, "inputs": item.inputs} | ({"truth": item.truth} if item.truth else {})
            seen.nulls.append(NullDraw(variant, judge.nulls(rtol, protocol.ratio_reordered, values)))
