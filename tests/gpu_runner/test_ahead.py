"""Baselines compiled in the background: begun where a program is fit for a run, taken by the timing, ended with the run."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from gpu_runner import ahead, baselines, turns
from gpu_runner.config import config
from gpu_runner.contracts import PROTOCOLS, AnalyseTask, Analysis, DeviceInfo, Label, Limits, Mode, Precision, Source
from gpu_runner.hands import Cancelled, HandsError
from gpu_runner.job import Job
from gpu_runner.peers import ReferencePeer
from gpu_runner.session import Session
from gpu_runner.timed import Known
from tests.gpu_runner.test_compiled import ALL, PRODUCT, FakeArm


class Slow(Session):
    """Its modes compile until `go` is set. `held`: processes of modes."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.begun = threading.Event()
        self.sizes: dict[Any, int] = dict.fromkeys(((mode, choices) for mode in ALL for choices in (False, True)), 1)
        self.closed: list[str] = []
        self.trouble: Exception | None = None

    def reference(self, job: Job, source: Source, arm: str = "") -> Any:
        made = FakeArm(self, arm)  # type: ignore[arg-type]
        made.job = job  # type: ignore[attr-defined]
        self._references[self.key(job, source), arm] = made  # type: ignore[assignment]
        self.job = job
        return made

    def call(self, mode: str) -> None:
        self.begun.set()
        while not self.go.wait(0.02):
            if self.job.cancelled():
                raise Cancelled
        if self.trouble is not None:
            raise self.trouble


@pytest.fixture(autouse=True)
def sixteen_cores(own_queue: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_CACHE_DIR", str(tmp_path / "cache"))
    config.cache_clear()
    monkeypatch.setattr(turns, "compilers", lambda: 4)
    monkeypatch.setattr(ahead, "device_info", lambda target: DEVICE)


DEVICE = DeviceInfo(kind="gpu", name="H200", target="sm_90", torch="2")
TASK = AnalyseTask(target="sm_90", source=Source(text=PRODUCT), protocol=PROTOCOLS["strict"], mode=Mode.EVAL)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Slow:
    made = Slow()
    monkeypatch.setattr(
        ReferencePeer, "start", lambda job, source, compile=None, untimed=False: made.reference(job, source, compile)
    )
    return made


def job(cancelled: threading.Event | None = None, device: str = "cuda") -> Job:
    stop = cancelled.is_set if cancelled else lambda: False
    return Job(device, Limits(), Mode.EVAL, Precision.AS_REFERENCE, lambda p: None, stop)


def test_what_is_compiled_in_the_background_is_taken_by_the_timing_as_its_own(session: Slow) -> None:
    ahead.begin(job(), TASK, Analysis(), session)
    assert session.begun.wait(5), "nobody has asked for it yet"
    session.go.set()
    mine = job()
    made = ahead.taken(mine, TASK.source, session, ALL)
    assert made is not None
    assert list(made.arms) == list(ALL)
    assert made.errors == {}
    assert all(arm.job is mine for arm in made.arms.values())
    assert ahead.taken(mine, TASK.source, session, ALL) is None, "once"


def test_nothing_is_begun_for_whom_nobody_will_time(session: Slow) -> None:
    degenerate, nulls = Analysis(labels=(Label.DEGENERATE,)), Analysis(nulls=("zeros",))
    for report, on in ((degenerate, job()), (nulls, job()), (Analysis(), job(device="cpu"))):
        ahead.begin(on, TASK, report, session)
        assert session.background == {}
    known = baselines.key(session.key(job(), TASK.source), TASK.protocol, DEVICE)
    baselines.save(known, Known({}, {}, {}, ""))
    ahead.begin(job(), TASK, Analysis(), session)
    assert session.background.keys() == {session.key(job(), TASK.source)}, "known baselines without a figure are none"
    session.close()


def test_another_run_ends_it_with_its_processes(session: Slow) -> None:
    ahead.begin(job(), TASK, Analysis(), session)
    assert session.begun.wait(5)
    ahead.end(session, keep=session.key(job(), TASK.source))
    assert session.background
    ahead.end(session)
    assert session.background == {}
    assert session.closed
    assert not session._references


def test_a_cancelled_timing_waits_no_longer_and_closing_the_session_ends_it(session: Slow) -> None:
    cancelled = threading.Event()
    ahead.begin(job(), TASK, Analysis(), session)
    threading.Timer(0.3, cancelled.set).start()
    with pytest.raises(Cancelled):
        ahead.taken(job(cancelled), TASK.source, session, ALL)
    ahead.begin(job(), TASK, Analysis(), session)
    session.close()
    assert session.background == {}


def test_where_it_breaks_the_timing_compiles_for_itself(session: Slow, caplog: pytest.LogCaptureFixture) -> None:
    session.trouble = HandsError("No memory.")
    session.go.set()
    ahead.begin(job(), TASK, Analysis(), session)
    assert ahead.taken(job(), TASK.source, session, ALL) is None
    assert caplog.text.count("No memory.") == 1
    assert not session._references, "what broke off may have ended: the timing starts its own"
    session.trouble = None
    ahead.begin(job(), TASK, Analysis(), session)
    assert ahead.taken(job(), TASK.source, session, ALL[:1]) is None, "other modes than those that are asked for"


def test_a_process_that_was_ended_is_started_anew() -> None:
    own = Job("cpu", Limits(), Mode.EVAL, Precision.AS_REFERENCE, lambda p: None, lambda: False)
    with Session() as kept:
        first = kept.reference(own, TASK.source)
        assert kept.reference(own, TASK.source) is first
        first.close()  # as a task does that is broken off in the middle of a question
        second = kept.reference(own, TASK.source)
        assert second is not first
        assert second.facts["entry"] == "Model"
