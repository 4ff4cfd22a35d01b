"""What the host's waits cost, on traces of a small simulated host and GPU: programs can be run without their waits there."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from gpu_runner.profile.system import summarise_gpu
from gpu_runner.profile.trace import Call, GpuRow, Trace
from gpu_runner.profile.verdicts import gpu_verdicts

US = 1000
CALL, REACH, RETURN = 4, 3, 5  # µs: a launch call, from its end to the GPU, from the GPU's end to a waiting host


@dataclass
class Machine:
    """Host threads that launch on a GPU of streams; microseconds. `waits` False: waits, and what follows them, take no time."""

    waits: bool = True
    depth: int = 1000  # rows that may be queued
    trace: Trace = field(default_factory=lambda: Trace("nsys", basis="nvtx"))
    now: dict[str, float] = field(default_factory=dict)
    free: dict[int, float] = field(default_factory=dict)

    def work(self, us: float, thread: str = "1") -> None:
        """The host computes: Python, dispatch."""
        self.now[thread] = self.now.get(thread, 0) + us

    def launch(self, us: float, thread: str = "1", stream: int = 7) -> None:
        """A kernel of `us`; the call blocks while the queue is full."""
        at = self.now.get(thread, 0)
        key = len(self.trace.gpu) + 1
        behind = self.trace.gpu[-self.depth].start / US if len(self.trace.gpu) >= self.depth else 0
        end = max(at + CALL, behind)
        start = max(end + REACH, self.free.get(stream, 0))
        self.trace.calls.append(Call("cudaLaunchKernel", round(at * US), round(end * US), thread, key))
        self.trace.gpu.append(GpuRow("kernel", "k()", round(start * US), round((start + us) * US), stream=stream, key=key))
        self.now[thread], self.free[stream] = end, start + us

    def wait(self, after: float = 0, thread: str = "1") -> None:
        """Until the GPU is done; then the host works on what it read."""
        if not self.waits:
            return
        at = self.now.get(thread, 0)
        end = max(at + 1, max(self.free.values()) + RETURN)
        self.trace.calls.append(Call("cudaStreamSynchronize", round(at * US), round(end * US), thread))
        self.now[thread] = end + after

    def begin(self) -> None:
        """A forward: ranges end where the next begins."""
        at = round(self.now.get("1", 0) * US)
        self.end()
        self.trace.ranges.append((at, at))

    def end(self) -> None:
        if self.trace.ranges:
            self.trace.ranges[-1] = (self.trace.ranges[-1][0], round(self.now["1"] * US))

    def summary(self) -> dict:
        self.end()
        return summarise_gpu(self.trace)


def run(forward, *, waits: bool = True, times: int = 30, **machine) -> dict:
    """The summary of a number of forwards one after the other."""
    made = Machine(waits, **machine)
    made.now["1"] = 100
    for _ in range(times):
        made.begin()
        forward(made)
    return made.summary()


def classes(summary: dict) -> list[str]:
    return [v["class"] for v in gpu_verdicts(summary)]


def causes(summary: dict) -> dict[str, float]:
    """Shares of the wall time in per cent."""
    return {cause: 100 * ns / summary["window"]["wall_ns"] for cause, ns in summary["gpu"]["idle_by_cause_ns"].items()}


def reads_each_step(m: Machine) -> None:
    for _ in range(10):
        for us in (6.7, 6.7, 6.7):
            m.launch(us)
            m.work(2)
        m.wait(after=9)


def launches_alone(m: Machine) -> None:
    for _ in range(60):
        m.launch(1.5)
        m.work(5)


def waits_once_for_long_kernels(m: Machine) -> None:
    for _ in range(4):
        m.launch(400)
        m.work(10)
    m.wait(after=15)


def launches_and_waits_once(m: Machine) -> None:
    launches_alone(m)
    m.wait(after=10)


def waits_for_nothing(m: Machine) -> None:
    m.launch(100)
    m.work(500)
    m.wait(after=300)


def loads_for_long_after_a_wait(m: Machine) -> None:
    m.launch(1000)
    m.wait(after=20_000)


@pytest.mark.parametrize(
    ("forward", "wanted", "never"),
    [
        (reads_each_step, "sync-bound", "launch-bound"),  # the launches find an idle GPU because of the waits
        (launches_alone, "launch-bound", "sync-bound"),
        (launches_and_waits_once, "launch-bound", "sync-bound"),
        (waits_once_for_long_kernels, "gpu-bound", "sync-bound"),
        (waits_for_nothing, "host-bound", "never"),  # the GPU had long been done
        (loads_for_long_after_a_wait, "host-bound", "never"),
    ],
)
def test_a_wait_is_named_where_the_gpu_would_be_busy_without_it(forward, wanted, never):
    found = run(forward)
    assert classes(found)[0] == wanted, causes(found)
    assert never not in classes(found), causes(found)


def test_without_waits_nothing_is_charged_to_them():
    found = run(launches_alone)
    assert found["gpu"]["idle_by_cause_ns"]["sync"] == 0
    assert sum(found["gpu"]["idle_by_cause_ns"].values()) == found["gpu"]["idle_ns"] > 0


@pytest.mark.parametrize("seed", range(12))
def test_what_is_left_is_what_the_same_program_waits_for_launches_without_its_waits(seed):
    """Programs of random kernels, work and waits: the replay against the machine that does not wait."""
    draw = random.Random(seed)
    share = draw.choice([0.05, 0.2, 0.5])
    longest = draw.choice([3, 10, 40])
    steps = [(draw.uniform(1, longest), draw.uniform(0, 12), draw.random() < share) for _ in range(40)]

    def forward(m: Machine) -> None:
        for kernel, work, reads in steps:
            m.launch(kernel)
            m.work(work)
            if reads:
                m.wait(after=work)

    waiting, free = run(forward, times=20), run(forward, times=20, waits=False)
    left = sum(waiting["gpu"]["idle_by_cause_ns"][cause] for cause in ("launch", "host"))
    truth = free["gpu"]["idle_ns"] - free["gpu"]["idle_by_cause_ns"]["unknown"]
    assert left == pytest.approx(truth, rel=0.03, abs=0.01 * waiting["window"]["wall_ns"]), causes(waiting)
    assert sum(waiting["gpu"]["idle_by_cause_ns"].values()) == waiting["gpu"]["idle_ns"]


def test_a_gap_of_two_causes_is_one_gap_in_two_parts():
    found = run(lambda m: (m.launch(2), m.work(20), m.launch(2), m.wait(after=9)))
    line, bins = found["timeline"], found["gpu"]["gap_histogram"]
    assert {g["cause"] for g in line["gaps"]} == {"sync", "host"}
    assert sum(r["ns"] for s in line["streams"] for r in s["rows"]) + sum(g["ns"] for g in line["gaps"]) == line["wall_ns"]
    assert sum(slot["count"] for slot in bins) == found["gpu"]["kernel_count"] + 1
    assert sum(slot["total_ns"] for slot in bins) == found["gpu"]["idle_ns"]


def test_a_thread_that_hands_over_waits_for_both_and_one_beside_does_not():
    """Backward launches from a thread of its own after the forward's thread waited; a loader's waits are its own."""

    def handed(m: Machine) -> None:
        for _ in range(5):
            m.launch(10)
            m.wait(after=2)
            m.now["2"] = m.now["1"]
            for _ in range(3):
                m.launch(10, "2")
                m.work(3, "2")
            m.now["1"] = m.now["2"]

    def beside(m: Machine) -> None:
        m.now["2"] = m.now["1"]
        for _ in range(40):
            m.launch(1.5)
            m.work(6)
        while m.now["2"] < m.now["1"] - 60:
            m.launch(20, "2", stream=9)
            m.wait(after=1, thread="2")

    found = run(handed)
    assert classes(found)[0] == "sync-bound", causes(found)
    found = run(beside)
    assert "sync-bound" not in classes(found), causes(found)


def test_a_full_queue_that_blocks_launches_is_no_work_of_the_host():
    def forward(m: Machine) -> None:
        for _ in range(200):
            m.launch(10)
        m.wait(after=300)

    found = run(forward, depth=50)
    assert classes(found)[0] == "sync-bound", causes(found)
    assert causes(found)["sync"] == pytest.approx(100 * 315 / 2315, abs=1)


def test_rows_whose_calls_are_missing_keep_their_gaps():
    made = Machine()
    made.now["1"] = 100
    for _ in range(20):
        made.begin()
        reads_each_step(made)
    kept = made.trace.calls[len(made.trace.calls) // 2 :]  # a capture that was trimmed at its start
    made.trace.calls = kept
    found = made.summary()
    assert sum(found["gpu"]["idle_by_cause_ns"].values()) == found["gpu"]["idle_ns"]
    assert found["gpu"]["idle_by_cause_ns"]["unknown"] == pytest.approx(found["gpu"]["idle_ns"] / 2, rel=0.05)
    assert found["gpu"]["idle_by_cause_ns"]["sync"] > found["gpu"]["idle_by_cause_ns"]["launch"]
    made.trace.calls = [call for call in kept if "Synchronize" not in call.name]
    assert made.summary()["gpu"]["idle_by_cause_ns"]["sync"] == 0
