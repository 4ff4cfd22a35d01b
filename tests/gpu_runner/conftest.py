"""One pair of hands for all tests of this folder: processes that have imported torch are what makes them quick."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sandboxes import adopt_orphans, strays

from gpu_runner import turns
from gpu_runner.contracts import (
    PROTOCOLS,
    AnalyseTask,
    Analysis,
    CandidateFiles,
    CheckReport,
    CheckTask,
    Limits,
    Mode,
    Replay,
    Source,
)
from gpu_runner.local import LocalHands


@pytest.fixture(autouse=True)
def nothing_outlives_its_sandbox() -> Iterator[None]:
    """Fails the test after which a process of a sandbox is left without a keeper, and ends what is left."""
    adopt_orphans(True)
    yield
    deadline = time.monotonic() + 5
    while (left := strays()) and time.monotonic() < deadline:
        time.sleep(0.02)
    adopt_orphans(False)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, f"processes of sandboxes outlived them: {left}"


@pytest.fixture(scope="session")
def hands() -> Iterator[LocalHands]:
    with LocalHands() as made:
        yield made


@pytest.fixture(scope="session")
def analyse(hands: LocalHands) -> Callable[..., Analysis]:
    """analyse(text, mode=…, limits=…, protocol=…)."""

    def work(text: str, mode: Mode = Mode.EVAL, limits: Limits | None = None, protocol: str = "quick") -> Analysis:
        task = AnalyseTask(
            target="cpu", source=Source(text=text), protocol=PROTOCOLS[protocol], mode=mode, limits=limits or Limits()
        )
        report = hands.perform(task)
        assert isinstance(report, Analysis)
        return report

    return work


@pytest.fixture(scope="session")
def check(hands: LocalHands) -> Callable[..., CheckReport]:
    """check(reference, candidate, protocol=…, mode=…, kernels=…, replay=…)."""

    def work(
        reference: str,
        candidate: str,
        protocol: str = "quick",
        mode: Mode = Mode.EVAL,
        kernels: dict[str, str] | None = None,
        limits: Limits | None = None,
        replay: Replay | None = None,
    ) -> CheckReport:
        files = CandidateFiles(files={"model_new.py": candidate, **(kernels or {})})
        task = CheckTask(
            target="cpu",
            source=Source(text=reference),
            candidate=files,
            protocol=PROTOCOLS[protocol],
            mode=mode,
            limits=limits or Limits(),
            replay=replay,
            evidence=True,
        )
        report = hands.perform(task)
        assert isinstance(report, CheckReport)
        return report

    return work


@pytest.fixture
def own_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns at the device that nobody outside of the test takes part in. The users of sandboxes stay shared with everybody."""
    folder = tmp_path / "locks"
    folder.mkdir()
    monkeypatch.setattr(turns, "locks", lambda: folder)
    monkeypatch.setattr(turns, "_phases", {})
