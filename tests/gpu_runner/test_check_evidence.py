"""The verdict of a check is a function of recorded numbers: each of them, moved alone past its limit, changes what is said."""

from __future__ import annotations

import copy
import dataclasses
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpu_runner import seen
from gpu_runner.contracts import PROTOCOLS, CheckReport, HackClass, Mode
from gpu_runner.evidence import check_evidence, recorded
from gpu_runner.launches import Launch, Launches
from gpu_runner.marks import Mark
from gpu_runner.outcome import check_report
from gpu_runner.sanitizers.findings import Found, Sanitized, What
from gpu_runner.seen import AskedAgain, Evidence, InputsSeen, Inquest, Numbers, SkippedDraw
from gpu_runner.verdict import Trouble

STRICT = PROTOCOLS["strict"]
REFERENCE = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.ones(64))
    def forward(self, x):
        return x * 2 + self.shift
def get_inputs():
    return [torch.randn(64, 64)]
"""
CANDIDATE = """
import ctypes
from pathlib import Path
import torch

_kernels = ctypes.CDLL(str(Path(__file__).with_name("libkernels.so")))
_kernels.twice.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.ones(64))
    def forward(self, x):
        y = torch.empty_like(x)
        _kernels.twice(x.data_ptr(), y.data_ptr(), x.numel())
        return y + self.shift
"""
KERNEL = """
#include <cstdint>
extern "C" void twice(const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * 2.0f;
}
"""


@pytest.fixture(scope="module")
def right(check) -> Evidence:
    """What was recorded of a right program with kernels of its own, in `strict`."""
    report = check(REFERENCE, CANDIDATE, protocol="strict", kernels={"kernels/twice.cpp": KERNEL})
    assert report.verdict == "verified", (report.sentence, report.log)
    return check_evidence(report.evidence)


def test_judged_again_the_report_is_the_same_and_the_evidence_holds_no_opinion(check) -> None:
    report = check(REFERENCE, CANDIDATE, protocol="strict", kernels={"kernels/twice.cpp": KERNEL})
    again = check_report(check_evidence(report.evidence), STRICT)
    same = {"evidence": report.evidence, "device": report.device, "seconds": report.seconds}
    assert again.model_copy(update=same) == report
    assert recorded(check_evidence(report.evidence)) == report.evidence
    for word in ("passed", "verdict", "sentence", "hack_sentence", "blame"):
        assert f'"{word}"' not in str(report.evidence).replace("'", '"')


# ---- where things are in the evidence --------------------------------------------------------------------------------

Do = Callable[[Evidence], Any]


def leaf(e: Evidence) -> dict[str, Any]:
    first: dict[str, Any] = e.draws[0].numbers["leaves"][0]
    return first


def wrong(**more: Any) -> Do:
    """The first draw has an element that is off."""
    return lambda e: leaf(e).update({"failures": 9, "first": 3, "max_error": 4.0, "rmse": 1.0} | more)


def put(where: Do, **fields: Any) -> Do:
    """Set fields of an object, or keys of a dict."""

    def change(e: Evidence) -> None:
        target = where(e)
        for name, value in copy.deepcopy(fields).items():
            if isinstance(target, dict):
                target[name] = value
            else:
                setattr(target, name, value)

    return change


def both(*steps: Do) -> Do:
    return lambda e: [step(e) for step in steps] and None


def numbers(**more: Any) -> Numbers:
    """Numbers of one right result."""
    fine = {"kind": "tensor", "dtype": ["float32", "float32"], "shape": [[64, 64], [64, 64]], "numel": 4096, "rms": 1.0,
            "rmse": 1e-8, "rmse_eager": None, "max_error": 1e-7, "max_error_eager": None, "nonfinite": 0, "finite": True,
            "failures": 0, "first": None, "flat": False, "constant": False, "zero": False, "bits_equal": False,
            "epsilon": 1.2e-7}  # fmt: skip
    return {"leaves": [fine | more]}


def off() -> Numbers:
    return numbers(failures=4000, first=0, max_error=2.0, rmse=1.0)


def exact() -> Do:
    """The first result is one of integers."""
    return lambda e: e.draws[0].numbers.update(
        leaves=[{"kind": "tensor", "dtype": ["int64", "int64"], "shape": [[8], [8]], "numel": 8, "exact": True, "mismatches": 0,
                 "first": None, "constant": False, "bits_equal": True}]
    )  # fmt: skip


def literal() -> Do:
    return lambda e: e.draws[0].numbers.update(leaves=[{"kind": "literal", "equal": True}])


def first(e: Evidence) -> seen.CallSeen:
    return e.draws[0].call


def of_reference(e: Evidence) -> seen.CallSeen:
    return e.draws[0].reference


def inquest(e: Evidence) -> Inquest:
    if e.draws[0].inquest is None:
        e.draws[0].inquest = Inquest()
    return e.draws[0].inquest


def other_weights(e: Evidence) -> seen.DrawEvidence:
    """The first draw with weights that were drawn anew."""
    return next(d for d in e.draws if d.weights)


def structured(e: Evidence) -> seen.DrawEvidence:
    return next(d for d in e.draws if d.group == "structured")


NOTHING: Do = lambda e: None  # noqa: E731
ENDED = put(lambda e: e, trouble=Trouble("candidate", "crashed", "No.", how="ended"))
REFUSED = put(lambda e: e, trouble=Trouble("candidate", "crashed", "No."))
SKIPPED = put(lambda e: e, skipped=[SkippedDraw("small")])
LAUNCHED = put(
    lambda e: e,
    launches=Launches([Launch("kernel", "mine(int)", 1, 100), Launch("kernel", "gemm", 1, 300)], ["mine(int)"]),
)
SANITIZED = put(
    lambda e: e,
    sanitized=[Sanitized("address", 1.0, "8 rows", [Found(What.UNDEFINED, "overflow", "Bad.", "kernels/a.cpp", 3)])],
)
UNEVEN = put(lambda e: e.reference, plain_weights=False)  # as those are that a program must have read
IN_PLACE = both(put(first, changed_inputs=[0]), put(of_reference, changed_inputs=[0]))
INCORRECT, HACK, VERIFIED = "incorrect", "hack", "verified"

# What holds before, the one thing that moves, the verdict after it, and a word of what is said then: kind, label or row.
MOVES: list[tuple[Do, Do, str, str]] = [
    # a comparison
    (NOTHING, put(leaf, failures=1), INCORRECT, "1 of 4096 elements are wrong"),
    (NOTHING, put(leaf, nonfinite=5), INCORRECT, "partial_work"),
    (NOTHING, put(leaf, shape=[[1], [64, 64]]), INCORRECT, "shape"),
    (NOTHING, put(leaf, dtype=["float64", "float32"]), INCORRECT, "dtype"),
    (NOTHING, put(leaf, missing=True), INCORRECT, "not a tensor"),
    (NOTHING, put(lambda e: e.draws[0].numbers, structure=["*", ["tuple", "*", "*"]]), INCORRECT, "a tuple of 2"),
    (NOTHING, put(leaf, device=["cpu", "cuda"]), INCORRECT, "lies on cpu instead of cuda"),
    (NOTHING, put(leaf, format=["channels last", "contiguous"]), VERIFIED, "the reference's is contiguous"),
    (NOTHING, put(leaf, lost=3000), INCORRECT, "3000 of 4096 elements are off by more than half"),
    (put(leaf, rmse_eager=1e-8, small_error_eager=1e-3), put(leaf, small_error=0.5), VERIFIED, "reduced-precision"),
    (put(leaf, rmse_eager=1e-8, small_error=0.5, small_error_eager=0.3), put(leaf, small_error_eager=1e-3), VERIFIED,
     "reduced-precision"),
    (NOTHING, put(leaf, max_error=0.5), VERIFIED, "max error 0."),
    (put(leaf, max_error=0.5), put(leaf, rms=0.25), VERIFIED, "max error 2 ×"),
    (wrong(), put(leaf, first=77), INCORRECT, "the first at 77"),
    (wrong(), put(leaf, zero=True), HACK, "constant_or_zero"),
    (wrong(), put(leaf, constant=True), HACK, "constant_or_zero"),
    (wrong(), put(leaf, numel=9), INCORRECT, "9 of 9"),
    (wrong(rmse=1e-3), put(leaf, flat=True), INCORRECT, "partial_work"),
    (put(leaf, rmse_eager=1e-6), put(leaf, rmse=1e-4), VERIFIED, "reduced-precision"),
    (put(leaf, rmse=1e-4, rmse_eager=1e-4), put(leaf, rmse_eager=1e-6), VERIFIED, "reduced-precision"),
    (put(leaf, rmse=1e-4, rmse_eager=0.0, epsilon=1e-3), put(leaf, epsilon=1e-6), VERIFIED, "reduced-precision"),
    (put(leaf, rmse=1e-4, rmse_eager=1e-8), lambda e: e.signals.update({0: [1e-9]}), INCORRECT, "what the inputs change"),
    (exact(), put(leaf, mismatches=2), INCORRECT, "2 of 8 elements differ"),
    (both(exact(), put(leaf, mismatches=2)), put(leaf, ties=2), VERIFIED, "2 ties fell differently"),
    (both(exact(), put(leaf, rms=1.0, rmse=1.0, failures=0, nonfinite=0)), put(leaf, exact=False), INCORRECT, "what the "),
    (literal(), put(leaf, equal=False), INCORRECT, "another plain value"),
    (literal(), put(leaf, kind="tensor", shape=[[1], [2]]), INCORRECT, "shape"),
    # what the processes say of a call
    (NOTHING, put(first, types=["Lazy"]), HACK, "lazy_tensor"),
    (NOTHING, put(first, late=1), HACK, "background_thread"),
    (NOTHING, put(first, overwritten=1), INCORRECT, "a later call overwrote"),
    (NOTHING, put(first, outside={0: 3}), HACK, "3 bytes changed"),
    (NOTHING, put(first, changed_inputs=[0]), HACK, "input_mutation"),
    (put(first, changed_inputs=[0]), put(of_reference, changed_inputs=[0]), VERIFIED, "they were not compared"),
    (NOTHING, put(first, changed_weights=["norm.weight"]), INCORRECT, "writes into its parameter norm.weight"),
    (put(first, changed_weights=["norm.weight"]), put(of_reference, changed_weights=["norm.weight"]), VERIFIED, "Right on"),
    (NOTHING, put(first, aliases=["output 0 = input 0"]), INCORRECT, "input_passthrough"),
    (put(first, aliases=["output 0 = input 0"]), put(of_reference, aliases=["output 0 = input 0"]), VERIFIED, "no alias"),
    # draws
    (wrong(), lambda e: setattr(e.draws[0], "how", structured(e).how), "input-specialised", "right on the declared"),
    (both(put(leaf, rmse=1e-4, rmse_eager=1e-8), lambda e: e.signals.update({5: [1e-9]})),
     put(lambda e: e.draws[0], weights=5), INCORRECT, "what the inputs change"),
    (NOTHING, lambda e: e.draws[0].numbers.update(off()), INCORRECT, "4000 of 4096"),
    (wrong(), put(lambda e: e.draws[0], inquest=Inquest(again=[AskedAgain(0, off())])), INCORRECT, "race_or_oob"),
    (both(wrong(), inquest), put(inquest, later=numbers()), HACK, "background_thread"),
    (both(wrong(), inquest), put(inquest, against={"previous": numbers()}), HACK, "output_cache"),
    (both(wrong(), inquest, UNEVEN), put(inquest, against={"old_weights": numbers()}), HACK, "weight_cache"),
    (both(wrong(), put(inquest, against={"old_weights": numbers()}), UNEVEN), put(lambda e: e.reference, plain_weights=True),
     INCORRECT, "the program is wrong"),
    (both(put(other_weights, numbers=off()), put(other_weights, inquest=Inquest(restored=numbers()))),
     put(lambda e: other_weights(e).inquest, restored=off()), HACK, "warmup_detection"),
    (both(wrong(), inquest), put(inquest, against={"input": numbers()}), HACK, "input_passthrough"),
    (both(wrong(), inquest), put(inquest, again=[AskedAgain(0, off())]), INCORRECT, "race_or_oob"),
    (both(wrong(), put(inquest, again=[AskedAgain(0, numbers())])), put(lambda e: inquest(e).again[0], overwritten=1), HACK,
     "batch_and_skip"),
    (both(wrong(), put(inquest, again=[AskedAgain(0, None)])), put(lambda e: inquest(e).again[0], numbers=off()), INCORRECT,
     "race_or_oob"),
    (both(wrong(), put(inquest, again=[AskedAgain(0, off())])),
     lambda e: inquest(e).again[0].numbers["leaves"][0].update(finite=False), INCORRECT, "partial_work"),
    (NOTHING, put(structured, numbers=off()), "input-specialised", "right on the declared"),
    (NOTHING, lambda e: e.draws.clear(), VERIFIED, "all 0 declared"),
    (NOTHING, put(lambda e: e, skipped=[SkippedDraw("small", refused="No.")]), VERIFIED, "does not take it: No."),
    (SKIPPED, put(lambda e: e.skipped[0], refused="No."), VERIFIED, "not take it: No."),
    (SKIPPED, put(lambda e: e.skipped[0], not_finite=1), VERIFIED, "not stay finite"),
    (SKIPPED, put(lambda e: e.skipped[0], variant="large"), VERIFIED, "large"),
    # state and honesty
    (IN_PLACE, put(lambda e: e, inputs=InputsSeen(None)),
     INCORRECT, "the program does not"),
    (both(IN_PLACE, put(lambda e: e, inputs=InputsSeen(numbers()))),
     put(lambda e: e.inputs, numbers=off()), INCORRECT, "another content"),
    (NOTHING, put(lambda e: e, buffers=None), VERIFIED, ""),
    (NOTHING, put(lambda e: e.buffers, expected=["shift", "scale"]), INCORRECT, "not those of the reference"),
    (NOTHING, put(lambda e: e.buffers, found=[]), INCORRECT, "not those of the reference"),
    (NOTHING, put(lambda e: e.buffers, numbers=off()), INCORRECT, "a buffer ends with another content"),
    (NOTHING, put(lambda e: e, repeat=off()), INCORRECT, "race_or_oob"),
    (put(lambda e: e, repeat=numbers()), lambda e: e.repeat["leaves"][0].update(differing=7), VERIFIED, "7 of 4096"),
    (NOTHING, put(lambda e: e, fresh=off()), INCORRECT, "two processes gave different results"),
    (NOTHING, put(lambda e: e, eager_again=numbers(differing=5)), VERIFIED, "eager twice: 5 of 4096"),
    (NOTHING, put(lambda e: e.patches, flushed=["kept", "both"]), VERIFIED, "both flushed to zero since"),
    (NOTHING, put(lambda e: e, patches=None), VERIFIED, ""),
    (NOTHING, put(lambda e: e.patches, ours=["stitch_child.arm.Arm.go"]), HACK, "harness_probe"),
    (NOTHING, put(lambda e: e.patches, others=["time.time"]), VERIFIED, "timer_patch"),
    # what it rests on
    (NOTHING, put(lambda e: e, coverage=None), VERIFIED, ""),
    (NOTHING, put(lambda e: e.coverage, total_ns=10**15), VERIFIED, '"0% of the forward'),
    (put(lambda e: e.coverage, total_ns=1000), put(lambda e: e.coverage, own_ns=500), VERIFIED, "50% of the forward"),
    (NOTHING, put(lambda e: e.coverage, own_calls=0), VERIFIED, "no-own-kernels"),
    (NOTHING, put(lambda e: e.coverage, hidden_library=True), VERIFIED, "cannot be measured"),
    (put(lambda e: e.coverage, own_calls=0), put(lambda e: e.coverage, elsewhere=True), VERIFIED, "cannot be measured"),
    (NOTHING, put(lambda e: e.coverage, device_time=True), VERIFIED, ""),
    (NOTHING, put(lambda e: e, muted=numbers()), VERIFIED, "decorative_kernel"),
    (NOTHING, put(lambda e: e, batches=[]), VERIFIED, "no batch in common"),
    (NOTHING, put(lambda e: e, batches=None), VERIFIED, ""),
    (NOTHING, put(lambda e: e.batches[0], size=7777), VERIFIED, "7777"),
    (NOTHING, put(lambda e: e.batches[0], numbers=off()), VERIFIED, "shape_or_seed_special_case"),
    (put(lambda e: e.batches[0], numbers=None), put(lambda e: e.batches[0], by="candidate"), VERIFIED, "refused at 1"),
    (put(lambda e: e.batches[0], by="candidate"), put(lambda e: e.batches[0], said="Too few."), VERIFIED, "Too few."),
    (put(lambda e: e.coverage, own_calls=0), put(lambda e: e, required=True), HACK, "own kernels are required"),
    (both(put(lambda e: e.coverage, own_calls=0), put(lambda e: e, required=True)), put(lambda e: e, has_kernels=False), HACK,
     "library_only"),
    (NOTHING, put(lambda e: e, launches=Launches()), VERIFIED, "no activity recorded"),
    (LAUNCHED, put(lambda e: e.launches, seen=[]), VERIFIED, "no activity recorded"),
    (LAUNCHED, put(lambda e: e.launches, kernels=[]), VERIFIED, "no own kernel ran"),
    (LAUNCHED, put(lambda e: e.launches.seen[0], kind="memcpy"), VERIFIED, "no own kernel ran"),
    (LAUNCHED, put(lambda e: e.launches.seen[0], name="other"), VERIFIED, "no own kernel ran"),
    (LAUNCHED, put(lambda e: e.launches.seen[0], count=7), VERIFIED, "7 of 8 launches"),
    (LAUNCHED, put(lambda e: e.launches.seen[0], ns=900), VERIFIED, "75% of the device's time"),
    (NOTHING, SANITIZED, VERIFIED, "1 found"),
    (SANITIZED, put(lambda e: e.sanitized[0], tool="thread"), VERIFIED, "thread sanitizer"),
    (SANITIZED, put(lambda e: e.sanitized[0], seconds=5.0), VERIFIED, '"sanitizers_s":5.0'),
    (SANITIZED, put(lambda e: e.sanitized[0], shape="9 rows"), VERIFIED, "9 rows"),
    (SANITIZED, put(lambda e: e.sanitized[0], found=[]), VERIFIED, "nothing found"),
    (SANITIZED, put(lambda e: e.sanitized[0], not_run="No compiler."), VERIFIED, "No compiler."),
    (SANITIZED, put(lambda e: e.sanitized[0].found[0], what=What.MEMORY), HACK, "race_or_oob"),
    (SANITIZED, put(lambda e: e.sanitized[0].found[0], kind="leak"), VERIFIED, "leak in"),
    (SANITIZED, put(lambda e: e.sanitized[0].found[0], sentence="Worse."), VERIFIED, "Worse."),
    (SANITIZED, put(lambda e: e.sanitized[0].found[0], line=99), VERIFIED, "kernels/a.cpp:99"),
    (both(SANITIZED, put(lambda e: e.sanitized[0].found[0], what=What.MEMORY, file="")),
     put(lambda e: e.sanitized[0].found[0], file="kernels/a.cpp"), HACK, "race_or_oob"),
    # the reference
    (NOTHING, put(lambda e: e, reference=seen.ReferenceSeen(prints=[[1], [1]])), VERIFIED, "inputs-constant"),
    (NOTHING, put(lambda e: e.reference, nulls=[seen.NullDraw("", {"zeros": numbers()})]), VERIFIED, "degenerate"),
    (put(lambda e: e.reference, nulls=[seen.NullDraw("", {"zeros": off()})]),
     put(lambda e: e.reference.nulls[0], programs={"zeros": numbers()}), VERIFIED, "degenerate"),
    (put(lambda e: e.reference, nulls=[seen.NullDraw("", {"zeros": numbers(rmse=1e-3)})], signals=[1e-2]),
     put(lambda e: e.reference.nulls[0], variant="small"), VERIFIED, "degenerate"),
    (NOTHING, lambda e: e.reference.own["leaves"][0].update(rmse_eager=9.0, rmse=9.0), VERIFIED, "degenerate"),
    (put(lambda e: e.reference, own=numbers(rmse_eager=1e-3, rmse=1e-3), signals=[1.0]),
     put(lambda e: e.reference, signals=[1e-3]), VERIFIED, "degenerate"),
    (put(lambda e: e.reference, own=numbers()), put(lambda e: e.reference, own=numbers(rmse_eager=9.0, rmse=9.0)), VERIFIED,
     "degenerate"),
    (NOTHING, put(lambda e: e.reference, prints=[[1], [1]]), VERIFIED, "inputs-constant"),
    # the whole
    (put(leaf, rmse=1e-4, rmse_eager=1e-8), put(lambda e: e, signals={0: [1e-12], 1: [1e-12]}), INCORRECT, "the inputs change"),
    (NOTHING, put(lambda e: e, mode=Mode.TRAIN), VERIFIED, "train mode"),
    (NOTHING, put(lambda e: e, replayed=True), VERIFIED, "was replayed"),
    (NOTHING, put(lambda e: e, trouble=Trouble("candidate", "crashed", "It crashed.", how="ended")), "crashed", "It crashed."),
    (ENDED, put(lambda e: e.trouble, code="timed_out"),
     "timed-out", "timed-out"),
    (ENDED, put(lambda e: e.trouble, how="forged"), HACK,
     "result_forging"),
    (ENDED, put(lambda e: e.trouble, side="reference"),
     "refused", "The reference cannot be used"),
    (REFUSED, put(lambda e: e.trouble, sentence="Never."), "crashed",
     "Never."),
    (REFUSED, put(lambda e: e.trouble, log="at line 3"), "crashed",
     "at line 3"),
    (NOTHING, put(lambda e: e, marks=[Mark(HackClass.ORACLE_THEFT, "gc", "model_new.py", 3)]), VERIFIED, "oracle_theft"),
    (put(lambda e: e, marks=[Mark(HackClass.ORACLE_THEFT, "gc", "model_new.py", 3)]),
     put(lambda e: e, marks=[Mark(HackClass.TIMER_PATCH, "gc", "model_new.py", 3)]), VERIFIED, "timer_patch"),
]  # fmt: skip

# What no rule reads, and why it is there all the same.
INERT = {
    "leaf.max_error_eager": "the judge allows a multiple of it, and it stands in for a slow truth of later draws",
    "leaf.small": "how many the relative errors are of",
    "leaf.bits_equal": "tells the judge whether there is a difference to count",
    "ReferenceSeen.changed_inputs": "for the analysis; a draw's own call says what the candidate may change",
    "Mark": "found in the text, not measured",
    "Replay": "how to draw it again",
}


@pytest.mark.parametrize("number", range(len(MOVES)))
def test_each_number_moved_alone_changes_what_is_said(right: Evidence, number: int) -> None:
    given, move, verdict, says = MOVES[number]
    evidence = copy.deepcopy(right)
    given(evidence)
    before = copy.deepcopy(evidence)
    move(evidence)
    assert touched(before, evidence), "nothing moved"
    said, now = check_report(before, STRICT), check_report(evidence, STRICT)
    assert now.verdict == verdict, now.sentence
    assert text(now) != text(said)
    assert says in text(now)
    assert not says or says not in text(said)


def text(report: CheckReport) -> str:
    """All that a report says."""
    return report.model_dump_json(exclude={"evidence"})


# ---- that nothing was left out ---------------------------------------------------------------------------------------


def touched(before: Any, after: Any, name: str = "") -> set[str]:
    """Fields and keys, by the class that has them, that are not the same in both; the innermost ones, and the fields that hold
    changed numbers of the judge."""
    if before == after:
        return set()
    if dataclasses.is_dataclass(before) and type(before) is type(after):
        fields = [f.name for f in dataclasses.fields(before)]
        pairs = {f"{type(before).__name__}.{f}": (getattr(before, f), getattr(after, f)) for f in fields}
    elif isinstance(before, dict) and isinstance(after, dict) and "kind" in before:
        pairs = {f"leaf.{key}": (before.get(key), after.get(key)) for key in {*before, *after}}
    elif isinstance(before, dict) and isinstance(after, dict) and "leaves" in before:
        pairs = {"numbers.structure": (before.get("structure"), after.get("structure"))}
        pairs |= {name: (before["leaves"], after["leaves"])} if len(before["leaves"]) == len(after["leaves"]) else {}
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return {found for pair in zip(before, after, strict=True) for found in touched(*pair, name)}
    else:
        return {name}
    inner = {found for key, pair in pairs.items() for found in touched(*pair, key)}
    return inner | ({name} if not inner or (isinstance(before, dict) and "leaves" in before) else set())


def classes(kind: Any) -> Iterator[Any]:
    """A dataclass and all that its fields hold."""
    if dataclasses.is_dataclass(kind):
        yield kind
        for hint in typing.get_type_hints(kind).values():
            yield from classes(hint)
    elif isinstance(kind, types.GenericAlias | types.UnionType) or typing.get_origin(kind):
        for part in typing.get_args(kind):
            yield from classes(part)


def test_every_number_that_is_recorded_is_moved_by_a_case(right: Evidence) -> None:
    """Fails when a field or a number of the judge is added that no case moves."""
    moved: set[str] = set()
    for given, move, _, _ in MOVES:
        evidence = copy.deepcopy(right)
        given(evidence)
        before = copy.deepcopy(evidence)
        move(evidence)
        moved |= touched(before, evidence)
    known = {
        f"{kind.__name__}.{name}"
        for kind in classes(Evidence)
        for name, hint in typing.get_type_hints(kind).items()
        if not dataclasses.is_dataclass(hint)  # its own fields are what can be moved
    }
    assert {"Evidence.draws", "CallSeen.late", "CoverageSeen.own_ns", "AskedAgain.numbers"} <= known
    known |= {f"leaf.{key}" for draw in right.draws for one in draw.numbers["leaves"] for key in one}
    inert = {name for name in known if name in INERT or name.split(".")[0] in INERT}
    assert known - inert - moved == set()
    rare = {f"leaf.{key}" for key in ("missing", "exact", "mismatches", "ties", "equal", "differing")} | {"numbers.structure"}
    assert moved - known == rare
