"""Programs that keep a hold on memory they have handed over: what was looked at once is what everybody sees."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from programs import PLAIN, REFERENCE, ZEROS
from sandboxes import run, start

from gpu_runner import values
from gpu_runner.contracts import CheckReport, Verdict
from gpu_runner.sandbox import Memory
from gpu_runner.values import Forged, settled

WRITES = "with mmap.mmap(fds[0], 4096) as memory: memory[:5] = b'first'\n"
KEEPS = "sys.held = mmap.mmap(fds[0], 4096); sys.held[:5] = b'first'\n"
FORBIDS_SEALS = "fcntl.fcntl(fds[0], 1033, 1)\n"  # F_SEAL_SEAL
LATE = "sys.held[:5] = b'later'"


def test_memory_that_its_writer_let_go_of_is_final_without_a_copy() -> None:
    with start() as sandbox, Memory.create(4096) as memory:
        run(sandbox, WRITES, fds=[memory.fd])
        assert settled("reference", memory, 5) is memory
        assert run(sandbox, "result = tried(mmap.mmap, fds[0], 4096), tried(os.pwrite, fds[0], b'x', 0)", fds=[memory.fd]) == [
            "EPERM",
            "EPERM",
        ]
        assert memory.read(5) == b"first"


@pytest.mark.parametrize("program", [KEEPS, KEEPS + FORBIDS_SEALS, KEEPS + "os.fork() or time.sleep(60)"])
def test_memory_that_its_writer_keeps_mapped_is_copied_before_it_is_handed_on(program: str) -> None:
    with start() as sandbox, Memory.create(4096) as memory:
        run(sandbox, program, fds=[memory.fd])
        with settled("reference", memory, 5) as ours:
            run(sandbox, LATE)
            assert ours.read(5) == b"first"
            assert run(sandbox, "result = tried(mmap.mmap, fds[0], 5)", fds=[ours.fd]) == "EPERM"
        assert memory.fd == -1, "the first one is given back"


def test_forbidding_seals_alone_gains_nothing() -> None:
    with start() as sandbox, Memory.create(4096) as memory:
        run(sandbox, WRITES + FORBIDS_SEALS, fds=[memory.fd])
        with settled("reference", memory, 5) as ours:
            assert ours is not memory
            assert ours.read(5) == b"first"


def test_a_hold_on_more_than_the_parent_copies_ends_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "COPY_BYTES", 4)
    with start() as sandbox, Memory.create(4096) as memory:
        run(sandbox, KEEPS, fds=[memory.fd])
        with pytest.raises(Forged, match="keeps a hold"):
            settled("reference", memory, 5)


# Keeps a mapping of everything that its process hands over, and clears all of it once it has given its results in double
# precision: after eager was run on the inputs, before the candidate is.
CLEARS_LATE = (
    """
import mmap, sys
_tensors, _role = sys.modules["stitch_child.tensors"], sys.modules["stitch_child.reference"]
_held, _write = [], _tensors.write
def _keeping(value, fd, *more):
    manifest = _write(value, fd, *more)
    if manifest["bytes"]:
        _held.append(mmap.mmap(fd, manifest["bytes"]))
    return manifest
_tensors.write = _keeping
_real = _role.handle
def _handle(kind, payload, fds, emit):
    answer = _real(kind, payload, fds, emit)
    if kind == "double":
        for memory in _held[:-1]:
            memory[:] = bytes(len(memory))
        print("cleared", len(_held) - 1)
    return answer
_role.handle = _handle
"""
    + REFERENCE
)


def test_a_reference_that_changes_inputs_and_results_late_reaches_nobody(check: Callable[..., CheckReport]) -> None:
    report = check(CLEARS_LATE, PLAIN)
    assert report.verdict is Verdict.VERIFIED, report.sentence
    # Cleared, eager's results would be so far from the truth that any program were as good.
    assert "degenerate" not in report.sentence
    assert check(CLEARS_LATE, ZEROS).verdict is not Verdict.VERIFIED


def test_honest_programs_cost_no_copy(check: Callable[..., CheckReport], monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    real = Memory.copy
    monkeypatch.setattr(Memory, "copy", lambda self, size: copied.append(size) or real(self, size))
    assert check(REFERENCE, PLAIN).verdict is Verdict.VERIFIED
    assert copied == []
    assert check(CLEARS_LATE, PLAIN).verdict is Verdict.VERIFIED
    assert copied != []
