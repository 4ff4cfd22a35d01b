"""Nothing outlives its sandbox: no process, no resource group, no file, whoever dies and whenever."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandboxes import SMALL, namespace_of, processes_in, run, start

from gpu_runner.config import config
from gpu_runner.sandbox import ChildCrashed
from gpu_runner.sandbox.launch import launch

FOLDER = Path(__file__).parent
FIND = f"import sys; sys.path[:0] = [{str(FOLDER)!r}, {str(FOLDER.parents[1])!r}]"


@pytest.fixture
def temporary() -> Iterator[str]:
    """An empty folder that every user can walk into."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield folder


@pytest.mark.parametrize(
    ("kind", "owners"),
    [
        ("bubblewrap", 40),
        ("landlock", 12),
        ("unsafe", 12),
        *(pytest.param(kind, 400, marks=pytest.mark.slow) for kind in ("bubblewrap", "landlock", "unsafe")),
    ],
)
def test_nothing_stays_of_owners_that_are_killed_or_cancel_at_any_moment(kind: str, owners: int, temporary: str) -> None:
    seed = time.time_ns() % 100_000
    done = subprocess.run(
        [sys.executable, "-c", f"{FIND}; import nursery; nursery.main({owners}, {kind!r}, {seed}, {temporary!r})"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"alive": [], "groups": [], "files": [], "wrong": []}, f"with the seed {seed}"


def test_a_keeper_that_is_killed_takes_its_sandbox_along() -> None:
    with start() as sandbox:
        namespace = namespace_of(sandbox)
        os.kill(sandbox.pid, signal.SIGKILL)
        with pytest.raises(ChildCrashed):
            run(sandbox, "time.sleep(600)")
        deadline = time.monotonic() + 5
        while processes_in(namespace) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert processes_in(namespace) == []


def test_a_sandbox_that_is_lost_before_it_was_registered_ends_by_itself() -> None:
    """What an exception between two lines would do: the only reference to it goes."""
    launched = launch(config(), SMALL, 1, ())
    keeper = launched.keeper.pid
    process = os.pidfd_open(keeper)
    slot, group, output = launched.slot, launched.group, launched.output
    with pytest.warns(ResourceWarning):
        del launched
    assert select.select([process], [], [], 10)[0]
    os.close(process)
    os.close(output)
    assert group.remove()
    if slot is not None:
        slot.release()
