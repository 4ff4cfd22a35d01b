"""One pair of hands for all tests of this folder: processes that have imported torch are what makes them quick."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gpu_runner.contracts import PROTOCOLS, AnalyseTask, Analysis, CandidateFiles, CheckReport, CheckTask, Limits, Mode, Source
from gpu_runner.local import LocalHands


@pytest.fixture(scope="session")
def hands() -> Iterator[LocalHands]:
    with LocalHands() as made:
        yield made


@pytest.fixture(scope="session")
def analyse(hands: LocalHands) -> Callable[..., Analysis]:
    """analyse(text, mode=…, limits=…)."""

    def work(text: str, mode: Mode = Mode.EVAL, limits: Limits | None = None) -> Analysis:
        task = AnalyseTask(
            target="cpu", source=Source(text=text), protocol=PROTOCOLS["quick"], mode=mode, limits=limits or Limits()
        )
        report = hands.perform(task)
        assert isinstance(report, Analysis)
        return report

    return work


@pytest.fixture(scope="session")
def check(hands: LocalHands) -> Callable[..., CheckReport]:
    """check(reference, candidate, protocol=…, mode=…, kernels=…)."""

    def work(
        reference: str,
        candidate: str,
        protocol: str = "quick",
        mode: Mode = Mode.EVAL,
        kernels: dict[str, str] | None = None,
        limits: Limits | None = None,
    ) -> CheckReport:
        files = CandidateFiles(files={"model_new.py": candidate, **(kernels or {})})
        task = CheckTask(
            target="cpu",
            source=Source(text=reference),
            candidate=files,
            protocol=PROTOCOLS[protocol],
            mode=mode,
            limits=limits or Limits(),
        )
        report = hands.perform(task)
        assert isinstance(report, CheckReport)
        return report

    return work
