"""Timing with real processes. What is asserted holds on any machine: words, labels and refusals, never a time."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runner import speed
from gpu_runner.config import config
from gpu_runner.contracts import PROTOCOLS, CandidateFiles, Label, Source, Speed, TimeTask, TimingReport
from gpu_runner.hacks.gallery import default_folder, entry_of
from gpu_runner.hands import Cancelled
from gpu_runner.local import LocalHands
from gpu_runner.peers import CandidatePeer
from gpu_runner.timing import Timer
from tests.gpu_runner.programs import REFERENCE

SLOW_REFERENCE = REFERENCE.replace(
    "return F.gelu(self.norm(x))", "for _ in range(40):\n            y = F.gelu(self.norm(x))\n        return y"
)
RIGHT = REFERENCE.replace("class Model(", "class ModelNew(")


@pytest.fixture(scope="module")
def measure(hands):
    def work(reference: str, candidate: str | None, **more) -> TimingReport:
        files = CandidateFiles(files={"model_new.py": candidate}) if candidate else None
        task = TimeTask(target="cpu", source=Source(text=reference), candidate=files, protocol=PROTOCOLS["quick"])
        report = hands.perform(task, **more)
        assert isinstance(report, TimingReport)
        return report

    return work


def test_a_program_that_does_a_fortieth_of_the_work_is_faster(measure):
    seen = []
    report = measure(SLOW_REFERENCE, RIGHT, progress=lambda p: seen.append(p) if p.kind == "timing" else None)
    assert report.verdict is None
    assert report.speed is Speed.FASTER, report.sentence
    assert report.baseline == "eager"
    assert report.over_eager.low > 1.05
    assert {arm.arm for arm in report.arms} == {"eager", "candidate"}
    assert all(len(arm.rounds) == report.facts["rounds"] for arm in report.arms)
    assert report.facts["samples_compared"] >= 1
    assert report.noise is not None
    assert {p.payload["arm"] for p in seen} == {"eager", "candidate"}


def test_a_program_that_turns_wrong_while_it_is_timed_is_incorrect(measure):
    candidate = RIGHT.replace(
        "return F.gelu(self.norm(x))",
        "self.calls = getattr(self, 'calls', 0) + 1\n"
        "        return F.gelu(self.norm(x)) if self.calls < 8 else torch.zeros_like(x)",
    )
    report = measure(REFERENCE, candidate)
    assert report.verdict == "incorrect"
    assert report.speed is Speed.NOT_CLAIMED
    assert report.over_eager is None


def test_a_program_that_stops_its_own_clock_is_caught_by_the_other_one(measure):
    cheat = RIGHT.replace(
        "import torch\n",
        "import sys, time\nimport torch\nfor name, module in list(sys.modules.items()):\n"
        "    if name.endswith('.arm'):\n        module._clock = lambda: 0\n",
        1,
    ).replace("return F.gelu(self.norm(x))", "time.sleep(0.02)\n        return F.gelu(self.norm(x))")
    report = measure(REFERENCE, cheat)
    assert Label.CLOCKS_DISAGREE in report.labels, report.sentence
    assert report.speed is Speed.NOT_CLAIMED


# A candidate that is done before it is called: where its inputs lie it learns from the harness in its own process.
EARLY = """
import gc, sys, threading, time

def laid_out():
    return next(o for o in gc.get_objects() if type(o).__name__ == "Arm").inputs[0]

class ModelNew(Model):
    early = None

    def forward(self, x):
        done, self.early = self.early, None
        same = done is not None and done[0] is x and torch.equal(done[1], x)
        return done[2] if same else super().forward(x)

    def work(self, x):
        with torch.no_grad():
            self.early = x, x.clone(), Model.forward(self, x)
"""
WHILE_MEMORY_IS_POISONED = """
    def __init__(self, *given):
        super().__init__(*given)
        harness = next(m for name, m in list(sys.modules.items()) if name.endswith(".arm"))
        harness.poison = lambda sizes, device: self.work(laid_out())
"""
WHILE_THREADS_WAKE = """
    def __init__(self, *given):
        super().__init__(*given)
        harness = next(m for name, m in list(sys.modules.items()) if name.endswith(".arm"))
        harness.wake_threads = lambda: self.work(laid_out())
"""
IN_THE_BACKGROUND = """
    def __init__(self, *given):
        super().__init__(*given)
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        held = seen = None
        while True:
            time.sleep(0.0003)
            try:
                held = held or next(o for o in gc.get_objects() if type(o).__name__ == "Arm")
                x = held.inputs[0]
            except (StopIteration, IndexError):
                continue
            mark = id(x), float(x[0, 0]), float(x[-1, -1])
            if mark != seen:
                seen = mark
                self.work(x)
"""


@pytest.mark.parametrize("how", [WHILE_MEMORY_IS_POISONED, WHILE_THREADS_WAKE, IN_THE_BACKGROUND])
def test_work_that_is_done_while_the_inputs_are_laid_out_is_seen(measure, how):
    slower = SLOW_REFERENCE.replace("range(40)", "range(600)")  # so that no noise of laying out can hide it
    report = measure(slower, slower + EARLY + how)
    assert report.verdict is None, report.sentence
    assert Label.CLOCKS_DISAGREE in report.labels, report.sentence
    assert "while inputs were laid out" in report.sentence or "while threads were woken" in report.sentence
    assert report.speed is Speed.NOT_CLAIMED


@pytest.mark.parametrize("name", ["openmp", "streaming_stores"])
def test_native_programs_lay_out_their_inputs_like_any_other(hands, name):
    entry = entry_of(default_folder() / "programs" / "honest" / "native" / f"{name}.py", default_folder())
    task = TimeTask(target="cpu", source=entry.source, candidate=entry.candidate, protocol=PROTOCOLS["quick"])
    report = hands.perform(task)
    assert isinstance(report, TimingReport)
    assert report.verdict is None, report.sentence
    assert Label.CLOCKS_DISAGREE not in report.labels, report.sentence


def test_no_speed_is_claimed_on_a_degenerate_program(measure):
    reference = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x @ torch.zeros(64, 64)
def get_inputs():
    return [torch.randn(64, 64)]
"""
    candidate = """
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.zeros(64, 64)
"""
    report = measure(reference, candidate)
    assert report.speed is Speed.NOT_CLAIMED
    assert Label.DEGENERATE in report.labels


def test_the_baselines_can_be_timed_alone(measure):
    report = measure(REFERENCE, None)
    assert [arm.arm for arm in report.arms] == ["eager"]
    assert report.over_eager is None
    assert report.speed is Speed.NOT_CLAIMED


def test_a_candidate_that_crashes_and_a_reference_that_does_are_told_apart(measure):
    crashing = RIGHT.replace("return F.gelu(self.norm(x))", "raise RuntimeError('no')")
    assert measure(REFERENCE, crashing).verdict == "crashed"
    assert measure(REFERENCE.replace("48, 256", "48, 255"), RIGHT).verdict == "refused"


def test_cancelling_ends_the_task_and_the_hands_go_on(measure):
    started = []

    def progress(message):
        if message.kind == "timing":
            started.append(True)

    with pytest.raises(Cancelled):
        measure(SLOW_REFERENCE, RIGHT, progress=progress, cancelled=lambda: bool(started))
    assert measure(REFERENCE, None).arms


def test_baselines_are_measured_once_and_again_when_eager_is_not_what_it_was(tmp_path, monkeypatch):
    monkeypatch.setenv("RUNNER_CACHE_DIR", str(tmp_path))
    config.cache_clear()
    # A mode without a meaning on the CPU: nothing is compiled, and its absence is known as well.
    protocol = PROTOCOLS["quick"].model_copy(update={"arms": ("eager", "reduce-overhead"), "rounds": 3, "samples_per_round": 2})
    files = CandidateFiles(files={"model_new.py": RIGHT})
    task = TimeTask(target="cpu", source=Source(text=SLOW_REFERENCE), candidate=files, protocol=protocol, evidence=True)

    loaded: list[CandidatePeer] = []
    load, baselines = CandidatePeer.load, Timer._baselines

    def loading(peer: CandidatePeer, *given: Any) -> None:
        loaded.append(peer)
        load(peer, *given)

    def measuring(timer: Timer, *peers: Any) -> Any:
        assert all(peer.sandbox.closed for peer in loaded), "a candidate could slow what is measured for those after it"
        return baselines(timer, *peers)

    monkeypatch.setattr(CandidatePeer, "load", loading)
    monkeypatch.setattr(Timer, "_baselines", measuring)

    def measured() -> str:
        stages = []
        with LocalHands() as hands:  # nothing but the file is common to them
            report = hands.perform(task, progress=lambda p: stages.append(p.payload) if p.kind == "stage" else None)
        assert isinstance(report, TimingReport)
        assert "CPU" in report.errors["reduce-overhead"]
        again = any("measuring them again" in stage["text"] for stage in stages)
        return "again" if again else "known" if report.evidence["known"] else "first"

    try:
        assert measured() == "first"
        [file] = (tmp_path / "baselines").glob("*.json")
        monkeypatch.setattr(speed, "SAME_EAGER", 1e3)  # whatever else runs here
        assert measured() == "known"
        monkeypatch.setattr(speed, "SAME_EAGER", -1e3)
        assert measured() == "again"
        file.write_text("{}")
        assert measured() == "first"
    finally:
        config.cache_clear()


class Compiling:
    """What goes on in the background, of another program."""

    stopped = False

    def stop(self) -> None:
        self.stopped = True


def test_nothing_of_another_program_is_left_while_one_is_measured(hands, measure, analyse):
    session, compiling = hands._session, Compiling()
    assert analyse(f"{REFERENCE}\n# of somebody else\n").refusal is None
    session.background["another"] = compiling
    measure(REFERENCE, None)
    assert len({program for program, _ in session._references}) == 1
    assert compiling.stopped, "it may be using what was ended"


@pytest.mark.slow
def test_compiled_baselines_are_correct_or_absent_with_a_reason(hands):
    protocol = PROTOCOLS["quick"].model_copy(update={"arms": ("eager", "default", "reduce-overhead"), "second_process": True})
    files = CandidateFiles(files={"model_new.py": RIGHT})
    report = hands.perform(TimeTask(target="cpu", source=Source(text=SLOW_REFERENCE), candidate=files, protocol=protocol))
    assert isinstance(report, TimingReport)
    arms = {arm.arm: arm for arm in report.arms}
    assert arms["default"].build_s > 0
    assert "CPU" in report.errors["reduce-overhead"]
    assert report.over_compile is not None
    assert report.second_process_ms is not None
    assert report.baseline in ("eager", "default")
