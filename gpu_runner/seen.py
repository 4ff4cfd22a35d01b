"""What a check records: numbers and names as they were seen, and no opinion. The rules: `findings` and `outcome`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from gpu_runner.contracts import Mode, Replay
from gpu_runner.launches import Launches
from gpu_runner.marks import Mark
from gpu_runner.sanitizers.findings import Sanitized
from gpu_runner.verdict import Trouble

Numbers = dict[str, Any]  # what `child.judge.compare` answers
MOST = 64  # of anything that a program can make long


@dataclass
class CallSeen:
    """What a program's process says of one call.

    `types`: of the results. `late`: how many looks after the return found a result changed (single elements read at once, whole
    results 50 ms later). `overwritten`: earlier results with another content now. `outside`: input and how many of the bytes
    around it changed. `changed_inputs`, `aliases`: see `child.arm.Arm.collect`; None where nobody looked. `changed_weights`:
    names of parameters that the call left with another content.
    """

    types: list[str] = field(default_factory=list)
    late: int = 0
    overwritten: int = 0
    outside: dict[int, int] = field(default_factory=dict)
    changed_inputs: list[int] | None = None
    aliases: list[str] | None = None
    changed_weights: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """Raises ValueError, TypeError, AttributeError or OverflowError for facts that our code cannot have sent."""
        changed, aliases = facts.get("changed_inputs"), facts.get("aliases")
        return cls(
            types=[str(name)[:60] for name in list(facts.get("types", []))[:MOST]],
            late=_count(facts.get("late", 0)),
            overwritten=_count(facts.get("overwritten", 0)),
            outside={_count(i): _count(count) for i, count in list(dict(facts.get("outside", {})).items())[:MOST]},
            changed_inputs=None if changed is None else [_count(i) for i in list(changed)[:MOST]],
            aliases=None if aliases is None else [str(text)[:80] for text in list(aliases)[:MOST]],
            changed_weights=[str(name)[:80] for name in list(facts.get("changed_weights", []))[:MOST]],
        )


def _count(value: Any) -> int:
    number = int(value)
    if not 0 <= number < 1 << 63:
        raise ValueError(f"{str(number)[:30]} is no count")
    return number


@dataclass
class AskedAgain:
    """One of several further calls on the content of a wrong draw: earlier results that it overwrote, and its own result
    against that of the wrong one; None where there was none."""

    overwritten: int
    numbers: Numbers | None


@dataclass
class Inquest:
    """What a wrong result was held against. `later`: the same result a while after. `against`: what it may be instead (the
    input, the result of the draw before, that for replaced weights), floating-point results alone. `restored`: its result once
    the replaced weights were back, against eager's with them."""

    later: Numbers | None = None
    against: dict[str, Numbers] = field(default_factory=dict)
    again: list[AskedAgain] = field(default_factory=list)
    restored: Numbers | None = None


@dataclass
class DrawEvidence:
    """One draw: `numbers` of the candidate's results, `call` and `reference` of the two processes. `weights`: which set."""

    how: Replay
    numbers: Numbers
    weights: int
    call: CallSeen
    reference: CallSeen
    inquest: Inquest | None = None

    @property
    def name(self) -> str:
        return self.how.name

    @property
    def group(self) -> Literal["declared", "structured"]:
        return self.how.group


@dataclass
class SkippedDraw:
    """A structured draw that was not compared: `refused` by the reference with this sentence, or not finite in so many of its
    results; neither: the inputs have nothing to change."""

    variant: str
    refused: str = ""
    not_finite: int = 0


@dataclass
class InputsSeen:
    """Inputs that both programs change, as each leaves them. `numbers` None: the candidate changed none."""

    numbers: Numbers | None


@dataclass
class BuffersSeen:
    """Names on both sides, counters left out; `numbers` where they are the same."""

    expected: list[str]
    found: list[str]
    numbers: Numbers | None = None


@dataclass
class PatchesSeen:
    """What the program replaced in its process, by name: of the harness, and of torch and the standard library. `flushed`: what
    arithmetic did with tiny numbers before its code was loaded and afterwards (kept; results, operands or both taken for 0)."""

    ours: list[str]
    others: list[str]
    flushed: list[str] = field(default_factory=list)


@dataclass
class CoverageSeen:
    """Nanoseconds of some forwards and of the own functions in them. `hidden_library`: it has one whose calls we do not see;
    `elsewhere`: its text names another way to kernels. `device_time`: the host's clock says nothing about kernels."""

    total_ns: int
    own_ns: int
    own_calls: int
    hidden_library: bool
    elsewhere: bool
    device_time: bool


@dataclass
class BatchSeen:
    """Another batch size than the declared one. `by`: who refused it, with `said`."""

    size: int
    numbers: Numbers | None = None
    by: Literal["", "reference", "candidate"] = ""
    said: str = ""


@dataclass
class NullDraw:
    """Trivial programs compared on one draw, each as a candidate would be; `variant` empty on a declared one."""

    variant: str
    programs: dict[str, Numbers]


@dataclass
class ReferenceSeen:
    """What is known of a reference. `own`: eager against fp64. `signals`: what the inputs change in each result. `prints`:
    checksums of the inputs of two draws. `changed_inputs`: those it writes into. `plain_weights`: every parameter is
    constructed as one number throughout, so that a program that never reads them computes as with the first ones."""

    own: Numbers = field(default_factory=lambda: {"leaves": []})
    signals: list[float | None] = field(default_factory=list)
    nulls: list[NullDraw] = field(default_factory=list)
    prints: list[list[int]] = field(default_factory=list)
    changed_inputs: list[int] = field(default_factory=list)
    plain_weights: bool = False


@dataclass
class Evidence:
    """Everything a verdict about correctness rests on. `signals` per weight draw and result; None where unknown.

    `repeat`: the same content at a new address. `fresh`: in another process. `eager_again`: eager's own second result of that.
    `muted`: own functions did nothing. What is None was not asked.
    """

    mode: Mode = Mode.EVAL
    required: bool = False  # own kernels are asked for
    has_kernels: bool = False  # it came with native sources
    replayed: bool = False  # one draw of an earlier check was made again, and nothing else
    trouble: Trouble | None = None
    reference: ReferenceSeen = field(default_factory=ReferenceSeen)
    marks: list[Mark] = field(default_factory=list)
    draws: list[DrawEvidence] = field(default_factory=list)
    signals: dict[int, list[float | None]] = field(default_factory=dict)
    skipped: list[SkippedDraw] = field(default_factory=list)
    inputs: InputsSeen | None = None
    buffers: BuffersSeen | None = None
    repeat: Numbers | None = None
    fresh: Numbers | None = None
    eager_again: Numbers | None = None
    patches: PatchesSeen | None = None
    coverage: CoverageSeen | None = None
    launches: Launches | None = None
    muted: Numbers | None = None
    batches: list[BatchSeen] | None = None
    sanitized: list[Sanitized] = field(default_factory=list)
