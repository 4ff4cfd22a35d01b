"""The process that reads the reports which people bring: where it runs, what it may cost, and what it keeps to itself."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from stitchweb.runs import reading
from stitchweb.runs.reading import Range, ReportRefused, read_reports
from tests.gpu_runner.profile_files import SAMPLES, event, iteration, trace
from tests.stitchweb.test_profiles import upload


def test_nothing_of_the_machine_that_made_the_report_is_kept(tmp_path: Path) -> None:
    events = [row for n in range(4) for row in iteration(1000.0 * n, n)]
    script = event("python_function", "/home/somebody/private/model.py(12): forward", 0, 900)
    made = trace([*events, script], env={"API_TOKEN": "hunter2"}, hostname="private-host", command="python private.py")
    summary = json.dumps(read_reports([upload("trace.json", json.dumps(made).encode())], Range()))
    assert "at::native" in summary or "add" in summary
    report = tmp_path / "nsys.sqlite"
    report.write_bytes((SAMPLES / "nsys.sqlite").read_bytes())
    with sqlite3.connect(report) as rows:
        rows.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_HOST', 'private-host')")
        rows.execute("CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT)")
        rows.execute("INSERT INTO PROCESSES VALUES (1, 4711, '/home/somebody/private/python --token hunter2')")
    rows.close()
    summary += json.dumps(read_reports([upload("nsys.sqlite", report.read_bytes())], Range("step", 1)))
    for word in ("hunter2", "private", "somebody", "API_TOKEN", "/home"):
        assert word not in summary


def test_reports_are_read_in_the_sandbox_and_without_one_by_a_process_with_limits(
    monkeypatch: pytest.MonkeyPatch, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    in_sandbox = read_reports([upload("nsys.sqlite")], Range("step", 1))
    assert not caplog.records
    settings.RUNNER_ENV = {"SANDBOX": "unsafe"}
    assert read_reports([upload("nsys.sqlite")], Range("step", 1)) == in_sandbox
    assert "without the sandbox" in caplog.text
    settings.RUNNER_ENV = {}
    monkeypatch.setattr(reading, "_BOUNDED", "raise SystemExit('the sandbox was not used')")
    assert read_reports([upload("nsys.sqlite")], Range("step", 1)) == in_sandbox


def test_reading_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "WALL_S", 0.05)
    with pytest.raises(ReportRefused, match="took longer than it may"):
        read_reports([upload("nsys.sqlite")], Range())


def _told(code: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a child says that runs this code in place of the reader, below the same limits, on a machine without a sandbox."""
    monkeypatch.setattr(reading.settings, "RUNNER_ENV", {"SANDBOX": "unsafe"})
    limits = reading._BOUNDED.split("sys.argv")[0]
    monkeypatch.setattr(reading, "_BOUNDED", f"{limits}import json\n{code}")
    return read_reports([upload("report.json", b"{}")], Range())


def test_the_reader_has_limits_and_neither_the_sites_environment_nor_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "the site's own")
    told = _told(
        "import os\n"
        "names = ('AS', 'CPU', 'FSIZE', 'NOFILE', 'CORE')\n"
        "limits = {n: resource.getrlimit(getattr(resource, f'RLIMIT_{n}'))[0] for n in names}\n"
        "print(json.dumps({'schema': 'stitchweb.profile/1', 'env': sorted(os.environ), 'cwd': os.getcwd(), 'limits': limits,"
        "'files': os.listdir()}))",
        monkeypatch,
    )
    assert set(told["env"]) <= {"PYTHONPATH", "PATH", "LC_ALL", "LC_CTYPE"}
    assert told["files"] == ["report0.json"]
    assert not Path(told["cwd"]).exists()  # gone once it is read
    assert told["limits"] == {"AS": 2 << 30, "CPU": 50, "FSIZE": 8 << 20, "NOFILE": 64, "CORE": 0}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("x = bytearray(4 << 30)", "more memory"),
        ("import os; os.abort()", "the reader ended on it"),
        ("print('not a summary')", "could not be read"),
        ("print('{' * 100000)", "could not be read"),
        ("print('x' * (9 << 20))", "could not be read"),
        ("sys.stderr.write('error: the file is a bird'); sys.exit(2)", "the file is a bird"),
    ],
)
def test_a_reader_that_fails_in_any_way_is_one_sentence(code: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ReportRefused, match=words):
        _told(code, monkeypatch)
