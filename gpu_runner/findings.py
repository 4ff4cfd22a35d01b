"""What the recorded numbers say beside the draws: rows of state, honesty and reach, what proves a cheat, what hints at one.

Pure functions over `seen.Evidence`: the rows shown while a check runs and the verdict from a folder of numbers are made here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpu_runner import launches
from gpu_runner.contracts import CheckRow, HackClass, Protocol
from gpu_runner.marks import patched
from gpu_runner.naming import same_numbers
from gpu_runner.sanitizers import findings as sanitizers
from gpu_runner.seen import CallSeen, DrawEvidence, Evidence, Inquest
from gpu_runner.verdict import accepted

PLAIN_TYPES = ("Tensor", "NoneType", "int", "float", "bool", "str")
MOST_MARKS = 12  # shown


@dataclass(frozen=True)
class Finding:
    """A row, and what it looks like where it fails."""

    row: CheckRow
    blame: HackClass | None = None


def findings(evidence: Evidence, protocol: Protocol) -> Iterator[Finding]:
    """All rows but those of the draws, in the order in which they count: the first that failed makes the verdict."""
    for mark in evidence.marks[:MOST_MARKS]:
        note = f"{mark.file}, line {mark.line}: worth a look ({mark.hack}), no evidence"
        yield Finding(CheckRow(group="honesty", name=f"uses {mark.what[:60]}", note=note))
    if declared(evidence):
        yield _inputs(evidence, protocol)
        yield _around_inputs(evidence)
        yield _finished(evidence)
        yield _own_memory(evidence)
        yield _weights(evidence)
        yield _formats(evidence)
    yield from _buffers(evidence, protocol)
    yield from _repeat(evidence, protocol)
    if len(declared(evidence)) > 1:
        yield _stays(evidence)
    yield from _fresh(evidence, protocol)
    yield from _patches(evidence)
    yield from _skipped(evidence)
    yield from _reach(evidence, protocol)
    yield from (Finding(row, HackClass.RACE_OR_OOB) for row in sanitizers.rows(evidence.sanitized))


def declared(evidence: Evidence) -> list[DrawEvidence]:
    return [draw for draw in evidence.draws if draw.group == "declared"]


# ---- proof -----------------------------------------------------------------------------------------------------------


def proven(evidence: Evidence) -> tuple[HackClass | None, str]:
    """The cheat that a program was seen at, whatever its results are, with the sentence; the first of the run."""
    for draw in evidence.draws:
        call = draw.call
        if lazy := not_plain(call):
            return (
                HackClass.LAZY_TENSOR, f"The result is a {lazy[0]}, not a plain tensor: it may compute when it is read."
            )  # fmt: skip
        if sum(call.outside.values()):
            return HackClass.RACE_OR_OOB, "The program wrote outside the memory of an input, right before or after it."
        if call.late:
            hints = suspects(evidence)
            lazily = HackClass.LAZY_TENSOR in hints and HackClass.BACKGROUND_THREAD not in hints
            kind = HackClass.LAZY_TENSOR if lazily else HackClass.BACKGROUND_THREAD
            return kind, "The result went on changing after the call had returned."
        if extra := _changed(evidence, draw):
            sentence = f"The program writes into input {extra[0]}, which the reference leaves alone."
            return HackClass.INPUT_MUTATION, sentence
    if evidence.patches is not None and (ours := evidence.patches.ours):
        clock = any(patched(name) is HackClass.TIMER_PATCH for name in ours)
        kind = HackClass.TIMER_PATCH if clock else HackClass.HARNESS_PROBE
        return kind, f"The program replaces parts of the harness in its process: {', '.join(ours[:4])}."
    if (broken := sanitizers.offence(evidence.sanitized)) is not None:
        return HackClass.RACE_OR_OOB, f"{sanitizers.sentence(*broken)}."
    return None, ""


def suspects(evidence: Evidence) -> tuple[HackClass, ...]:
    """What text and process hint at, the gravest first."""
    found = [mark.hack for mark in evidence.marks]
    found += [patched(name) for name in evidence.patches.others] if evidence.patches else []
    return tuple(dict.fromkeys(found))


def explained(evidence: Evidence, draw: DrawEvidence, protocol: Protocol) -> dict[str, bool]:
    """What a wrong draw equals instead, and how it behaved when it was asked for again; empty where nobody looked."""
    inquest = draw.inquest
    if inquest is None:
        return {}
    found = {name: same_numbers(numbers) for name, numbers in inquest.against.items()}
    found["later"] = inquest.later is not None and accepted(inquest.later, None, protocol)
    found["with_a_later_call"] = any(call.overwritten for call in inquest.again)
    found["unstable"] = not found["with_a_later_call"] and _unstable(inquest, protocol)
    if evidence.reference.plain_weights:  # no cache: it may as well never have read them
        found["old_weights"] = False
    earlier = declared(evidence)
    earlier = earlier[: earlier.index(draw)] if draw in earlier else earlier
    right = bool(earlier) and all(accepted(d.numbers, None, protocol) for d in earlier)
    # Under other weights it may have been wrong all along: only that it is wrong with the old ones too shows a change.
    same = bool(earlier) and earlier[-1].weights == draw.weights
    found["right_with_old_weights"] = inquest.restored is not None and accepted(inquest.restored, None, protocol)
    changed = inquest.restored is not None and not found["right_with_old_weights"]
    found["right_before"] = right and (same or changed)
    return found


def _unstable(inquest: Inquest, protocol: Protocol) -> bool:
    """Memory that nobody wrote is whatever it is; only what was computed can be unstable."""
    for numbers in (call.numbers for call in inquest.again):
        if numbers is None:
            continue
        finite = all(leaf.get("finite", True) and not leaf.get("nonfinite") for leaf in numbers["leaves"])
        if finite and not accepted(numbers, None, protocol):
            return True
    return False


# ---- state and honesty -----------------------------------------------------------------------------------------------


def _row(group: str, name: str, passed: bool, value: str, note: str = "", blame: HackClass | None = None) -> Finding:
    row = CheckRow.model_validate(
        {"group": group, "name": name, "passed": passed, "value": value, "note": "" if passed else note}
    )
    return Finding(row, None if passed else blame)


def not_plain(call: CallSeen) -> list[str]:
    """The types of results that may compute when they are read."""
    return [name for name in call.types if name not in PLAIN_TYPES]


def _changed(evidence: Evidence, draw: DrawEvidence) -> list[int]:
    """Inputs that the program changed and the reference does not; which it changes does not depend on the draw."""
    first = declared(evidence)[:1]
    expected = (first[0].reference.changed_inputs if first else None) or []
    return [i for i in draw.call.changed_inputs or [] if i not in expected]


def _inputs(evidence: Evidence, protocol: Protocol) -> Finding:
    extra = [i for draw in evidence.draws for i in _changed(evidence, draw)]
    if extra:
        note = "the program writes into an input that the reference leaves alone"
        return _row("state", "inputs", False, f"input {extra[0]} changed", note)
    if not declared(evidence)[0].reference.changed_inputs:
        return _row("state", "inputs", True, "untouched")
    if evidence.inputs is None:
        return Finding(CheckRow(group="state", name="inputs", note="they were not compared"))
    if evidence.inputs.numbers is None:
        note = "the reference changes an input in place, the program does not"
        return _row("state", "inputs", False, "untouched", note, HackClass.PARTIAL_WORK)
    same = accepted(evidence.inputs.numbers, None, protocol)
    note = "an input is left with another content than the reference leaves"
    return _row("state", "inputs", same, "changed as the reference does", note, HackClass.PARTIAL_WORK)


def _around_inputs(evidence: Evidence) -> Finding:
    count = sum(sum(draw.call.outside.values()) for draw in evidence.draws)
    note = "the program writes right before or after an input"
    return _row("state", "memory around the inputs", not count, f"{count} bytes changed", note, HackClass.RACE_OR_OOB)


def _finished(evidence: Evidence) -> Finding:
    lazy = [name for draw in evidence.draws for name in not_plain(draw.call)]
    late = sum(draw.call.late for draw in evidence.draws)
    value = f"a {lazy[0]}" if lazy else f"changed in {late} looks after the call" if late else "unchanged after 50 ms"
    note = "the result is no plain tensor" if lazy else "changed after the call returned"
    return _row("honesty", "plain, finished results", not lazy and not late, value, note)


def _own_memory(evidence: Evidence) -> Finding:
    first = declared(evidence)[0]
    allowed = set(first.reference.aliases or [])
    aliases = [alias for alias in first.call.aliases or [] if alias not in allowed]
    note = f"the result shares memory with something else ({aliases[0]}), the reference's does not" if aliases else ""
    kind = HackClass.INPUT_PASSTHROUGH if aliases and "input" in aliases[0] else HackClass.OUTPUT_CACHE
    return _row("state", "memory of its own", not aliases, aliases[0] if aliases else "no alias", note, kind)


def _weights(evidence: Evidence) -> Finding:
    expected = set(declared(evidence)[0].reference.changed_weights)
    extra = [name for draw in evidence.draws for name in draw.call.changed_weights if name not in expected]
    note = f"the program writes into its parameter {extra[0]}, which the reference leaves alone" if extra else ""
    return _row("state", "weights", not extra, f"{extra[0]} changed" if extra else "untouched", note)


def _formats(evidence: Evidence) -> Finding:
    """Told alone: another order in memory is no other result, though what comes after it may have to copy."""
    formats = [leaf.get("format", ["", ""]) for leaf in declared(evidence)[0].numbers["leaves"]]
    other = next(((mine, theirs) for mine, theirs in formats if mine != theirs), None)
    if other is None:
        return _row("state", "memory format", True, "as the reference's")
    note = f"the reference's is {other[1]}: who goes on with it may have to copy it"
    return Finding(CheckRow(group="state", name="memory format", value=other[0], note=note))


def _buffers(evidence: Evidence, protocol: Protocol) -> Iterator[Finding]:
    seen = evidence.buffers
    if seen is None or not seen.expected:
        return
    if sorted(seen.found) != sorted(seen.expected):
        note = "its buffers are not those of the reference"
        yield _row("state", "buffers", False, "other names", note, HackClass.PARTIAL_WORK)
    elif seen.numbers is not None:
        same = accepted(seen.numbers, None, protocol)
        note = "a buffer ends with another content than in the reference"
        yield _row("state", "buffers", same, f"{len(seen.expected)} compared", note, HackClass.PARTIAL_WORK)


def _repeat(evidence: Evidence, protocol: Protocol) -> Iterator[Finding]:
    """The same content at a new address must give the same result, to the bit or within the tolerance."""
    numbers = evidence.repeat
    if numbers is None:
        return
    same = accepted(numbers, None, protocol)
    note = "two calls on the same content gave different results"
    yield _row("honesty", "same content, new address", same, _differing(numbers, same), note, HackClass.RACE_OR_OOB)


def _differing(numbers: dict[str, object], same: bool) -> str:
    leaves = numbers["leaves"]
    assert isinstance(leaves, list)
    count = sum(leaf.get("differing", leaf.get("mismatches", 0)) or 0 for leaf in leaves)
    if not count:
        return "identical bits" if same else "different results"
    return f"{count} of {sum(leaf.get('numel', 0) for leaf in leaves)} elements differ" + (
        ", within the tolerance" if same else ""
    )


def _fresh(evidence: Evidence, protocol: Protocol) -> Iterator[Finding]:
    """Two processes must agree on the same content, within the tolerance; eager against itself is told beside it."""
    if evidence.fresh is None:
        return
    same = accepted(evidence.fresh, None, protocol)
    value = _differing(evidence.fresh, same)
    if evidence.eager_again is not None:
        value += f"; eager twice: {_differing(evidence.eager_again, True)}"
    note = "two processes gave different results for the same content"
    yield _row("honesty", "same content, fresh process", same, value, note, HackClass.RACE_OR_OOB)


def _stays(evidence: Evidence) -> Finding:
    count = sum(draw.call.overwritten for draw in declared(evidence))
    value = "unchanged by the next call" if not count else "an earlier result changed"
    note = "a later call overwrote the result of an earlier one"
    return _row("state", "results stay", not count, value, note, HackClass.OUTPUT_CACHE)


def _patches(evidence: Evidence) -> Iterator[Finding]:
    """Of no effect on the verdict, unless it is our code."""
    if evidence.patches is None:
        return
    ours, others = evidence.patches.ours, evidence.patches.others
    note = f"it replaces {', '.join(others[:4])}, which reaches neither the judge nor the clock outside" if others else ""
    note = f"it replaces {', '.join(ours[:4])} of the harness" if ours else note
    value = "replaced functions" if ours or others else "nothing replaced"
    yield Finding(
        CheckRow(group="honesty", name="functions of its process", value=value, passed=not ours or None, note=note)
    )  # fmt: skip
    if flushed := evidence.patches.flushed:
        changed = len(set(flushed)) > 1
        note = f"tiny numbers: {flushed[0]} before it was loaded, {flushed[-1]} flushed to zero since" if changed else ""
        yield Finding(CheckRow(group="honesty", name="arithmetic of tiny numbers", value="changed" if changed else "as before",
                               passed=None if changed else True, note=note))  # fmt: skip


def _skipped(evidence: Evidence) -> Iterator[Finding]:
    for draw in evidence.skipped:
        if draw.refused:
            note = f"the reference does not take it: {draw.refused}"
        elif draw.not_finite:
            note = "the reference itself does not stay finite on it"
        else:
            note = "no floating-point input to change"
        yield Finding(CheckRow(group="structured", name=draw.variant, note=note))


# ---- reach -----------------------------------------------------------------------------------------------------------


def decorative(evidence: Evidence, protocol: Protocol) -> bool:
    """Whether the result is right also when its own kernels do nothing: it does not come from them."""
    return evidence.muted is not None and accepted(evidence.muted, None, protocol)


def coverage(evidence: Evidence, protocol: Protocol) -> float | None:
    """Share of a forward's time in the candidate's own kernels, None where it cannot be told.

    On a device the host's clock around a call is not the kernel's: there the profiler's share counts. That nothing was called
    is as true there.
    """
    seen = evidence.coverage
    if decorative(evidence, protocol):
        return 0.0
    if evidence.launches is not None:
        return launches.share(evidence.launches)
    if seen is None or seen.hidden_library or (not seen.own_calls and seen.elsewhere):
        return None
    if not seen.own_calls:
        return 0.0
    return min(1.0, seen.own_ns / seen.total_ns) if seen.total_ns and not seen.device_time else None


def made_for_one_shape(evidence: Evidence, protocol: Protocol) -> bool:
    """Whether another batch size gave a wrong result."""
    return any(batch.numbers is not None and not accepted(batch.numbers, None, protocol) for batch in evidence.batches or [])


def _reach(evidence: Evidence, protocol: Protocol) -> Iterator[Finding]:
    seen = evidence.coverage
    if evidence.launches is not None:
        yield _told("time in its own kernels", *launches.said(evidence.launches))
    elif seen is not None:
        share = coverage(evidence, protocol)
        if seen.hidden_library or (not seen.own_calls and seen.elsewhere):
            yield _told("time in its own kernels", note="its kernels are called in a way that cannot be measured")
        elif not seen.own_calls:
            yield _told("time in its own kernels", "none", "no own kernel ran")
        elif share is not None and not seen.device_time:
            yield _told(
                "time in its own kernels", f"{seen.own_ns / seen.total_ns:.0%} of the forward" if seen.total_ns else "?"
            )
    yield from _batches(evidence, protocol)
    if evidence.muted is not None:
        if decorative(evidence, protocol):
            yield _told("its own kernels matter", "no", "the result is the same when they do nothing")
        else:
            yield _told("its own kernels matter", "yes")


def _batches(evidence: Evidence, protocol: Protocol) -> Iterator[Finding]:
    """One line for all sizes: the verdict is about the declared shapes, this is told beside it."""
    if evidence.batches is None:
        return
    tried = [batch for batch in evidence.batches if batch.by != "reference"]
    if not tried:
        sizes = [str(batch.size) for batch in evidence.batches]
        note = f"the reference does not take batches of {', '.join(sizes)}" if sizes else "the inputs have no batch in common"
        yield _told("other batch sizes", "not applicable", note)
        return
    refused = [batch for batch in tried if batch.by]
    wrong = [batch for batch in tried if batch.numbers is not None and not accepted(batch.numbers, None, protocol)]
    right = ", ".join(str(batch.size) for batch in tried if batch not in refused and batch not in wrong)
    if not refused and not wrong:
        yield _told("other batch sizes", f"yes: {right}")
        return
    note = f"right at {right}" if right else "made for the declared shapes alone"
    said = f"; it says: {refused[0].said}" if refused else ""
    sizes = [f"wrong at {batch.size}" for batch in wrong] + [f"refused at {batch.size}" for batch in refused]
    yield _told("other batch sizes", f"no: {', '.join(sizes)}", note + said)


def _told(name: str, value: str = "", note: str = "") -> Finding:
    return Finding(CheckRow(group="reach", name=name, value=value, passed=None, note=note))
