"""Reports read behind the real sandbox: the same summary, the same sentences, and an end to what takes too much."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sandboxes import LANDLOCK

from gpu_runner.config import config
from gpu_runner.profile import UnreadableProfile, limits, read_profile, sandboxed
from gpu_runner.profile.sandboxed import read_sandboxed
from gpu_runner.sandbox import ChildError, Sandbox, SandboxUnavailable
from tests.gpu_runner.profile_files import SAMPLES, busy_trace, write

REPORTS = [SAMPLES / name for name in ("nsys.sqlite", "ncu_raw.csv", "ncu_details.csv")]


def plain(summary):
    """As JSON carries it."""
    return json.loads(json.dumps(summary))


def test_every_kind_of_report_gives_the_summary_that_it_gives_outside(tmp_path):
    wanted = {"range_name": "step", "warmup": 1, "role": "candidate"}
    assert read_sandboxed(REPORTS, **wanted) == plain(read_profile(REPORTS, **wanted))
    trace = write(tmp_path / "t.json.gz", busy_trace())
    assert read_sandboxed([trace]) == plain(read_profile([trace]))


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("t.json", b'{"traceEvents": 3}', "no traceEvents"),  # what the reader finds
        ("t.csv", b"PK\x03\x04", "zip archive"),  # what is seen before it is asked
        ("t.json", b"", "empty"),
    ],
)
def test_what_cannot_be_read_is_refused_in_the_readers_words(tmp_path, name, data, words):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UnreadableProfile, match=words):
        read_sandboxed([tmp_path / name])


@pytest.mark.parametrize(("bound", "sentence"), [({"wall_s": 0.01}, limits.TOO_SLOW), ({"memory_bytes": 1 << 20}, "")])
def test_a_reader_that_takes_too_much_is_ended(bound, sentence):
    with pytest.raises(UnreadableProfile) as refused:
        read_sandboxed(REPORTS[:1], **bound)
    assert str(refused.value) in ([sentence] if sentence else [limits.TOO_LARGE, limits.BROKEN])


@pytest.mark.parametrize(
    "answer", [{}, {"summary": None}, {"summary": {"schema": "another"}}, {"summary": []}, {"unreadable": 3}]
)
def test_an_answer_that_is_no_summary_is_none(answer, monkeypatch):
    """A reader that was taken over answers what it likes."""
    monkeypatch.setattr(Sandbox, "request", lambda self, kind, *_, **__: answer if kind == "read" else {})
    with pytest.raises(UnreadableProfile, match="the reader ended on it"):
        read_sandboxed(REPORTS[:1])


def test_an_error_of_the_readers_own_is_a_sentence(monkeypatch):
    def failed(self, kind, *_, **__):
        if kind == "read":
            raise ChildError("ZeroDivisionError", "division by zero", "Traceback …")
        return {}

    monkeypatch.setattr(Sandbox, "request", failed)
    with pytest.raises(UnreadableProfile, match="the reader ended on it"):
        read_sandboxed(REPORTS[:1])


def test_without_a_sandbox_nothing_is_read_here(monkeypatch):
    monkeypatch.setenv("SANDBOX", "unsafe")
    config.cache_clear()
    try:
        with pytest.raises(SandboxUnavailable):
            sandboxed.read_sandboxed(REPORTS[:1])
    finally:
        monkeypatch.undo()
        config.cache_clear()


@pytest.mark.parametrize(
    ("kind", "status"),
    [("bubblewrap", 0), pytest.param("landlock", 0, marks=LANDLOCK.marks), ("unsafe", limits.NO_SANDBOX)],
)
def test_the_command_says_by_its_status_whether_there_was_a_sandbox(kind, status, monkeypatch):
    monkeypatch.setenv("SANDBOX", kind)
    command = [sys.executable, "-m", "gpu_runner", "profile", "import", str(REPORTS[0]), "--json", "--sandbox"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=120)
    assert done.returncode == status, done.stderr
    assert (done.stdout != "") == (status == 0)
