"""Programs that hang, fill or break the device: each ends, all comes back, and the next one is judged and timed as before."""

from __future__ import annotations

import subprocess
import time

import pytest
from sandboxes import run
from test_cuda import LAUNCH, REFERENCE, RIGHT, candidate, target

from gpu_runner.contracts import PROTOCOLS, CandidateFiles, CheckReport, CheckTask, Limits, Source, TimeTask, TimingReport
from gpu_runner.device import device_of
from gpu_runner.sandbox import Sandbox, SandboxSpec

pytestmark = pytest.mark.gpu
BACK_S = 10.0
SLOWER = 1.5  # medians of a short timing on a device whose clock moves
ENDLESS = """
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (now - start < 90000000000ull);
"""
FILL = (
    "void* all = nullptr; size_t size = 1 << 30; while (size > 4096) { if (cudaMalloc(&all, size) != cudaSuccess) size /= 2; }"
)


def used_mib() -> int:
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    return int(subprocess.run(query, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()[0])


@pytest.fixture(scope="module")
def honest(hands):
    """honest() -> (verdict, candidate's median in ms) of a right program."""

    def work() -> tuple[str, float]:
        common = {
            "target": target(),
            "source": Source(text=REFERENCE),
            "candidate": candidate(),
            "protocol": PROTOCOLS["quick"],
        }
        check = hands.perform(CheckTask(**common))
        assert isinstance(check, CheckReport)
        timing = hands.perform(TimeTask(**common))
        assert isinstance(timing, TimingReport)
        assert timing.verdict is None, timing.sentence
        return str(check.verdict), next(arm.median_ms for arm in timing.arms if arm.arm == "candidate")

    return work


@pytest.fixture(scope="module")
def before(honest):
    verdict, median = honest()
    assert verdict == "verified"
    return median


HOSTILE: dict[str, tuple[CandidateFiles, float, set[str]]] = {
    "hangs": (candidate(ENDLESS + RIGHT), 25.0, {"timed-out"}),
    "takes all of the memory": (candidate(launch=f"{FILL} {LAUNCH}"), 60.0, {"incorrect", "crashed"}),
    "takes all of the memory and says nothing": (
        candidate(launch=f"{FILL} cudaGetLastError(); {LAUNCH}"),
        60.0,
        {"crashed", "refused"},
    ),
    "writes where nothing is": (candidate(f"{RIGHT} if (i == 0) *(float*)0x1000 = 1;"), 60.0, {"crashed"}),
    "writes far behind its memory": (candidate(f"{RIGHT} if (i == 0) y[1ll << 40] = 1;"), 60.0, {"crashed"}),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_the_next_program_is_judged_and_timed_as_if_nothing_had_been_that(hands, honest, before, what):
    files, wall_s, verdicts = HOSTILE[what]
    free = used_mib()
    began = time.monotonic()
    report = hands.perform(
        CheckTask(
            target=target(), source=Source(text=REFERENCE), candidate=files, protocol=PROTOCOLS["quick"],
            limits=Limits(wall_s=wall_s),
        )
    )  # fmt: skip
    took = time.monotonic() - began
    assert isinstance(report, CheckReport)
    assert str(report.verdict) in verdicts, (report.sentence, report.log)
    assert took < wall_s + BACK_S
    deadline = time.monotonic() + BACK_S
    while used_mib() > free + 2048 and time.monotonic() < deadline:  # contexts that wait for the next job stay
        time.sleep(0.2)
    assert used_mib() <= free + 2048
    verdict, median = honest()
    assert verdict == "verified"
    assert median < before * SLOWER


OWNER = """
import torch
held = torch.full((1 << 24,), 0x5EC2E7, dtype=torch.int32, device="cuda")
torch.cuda.synchronize()
result = held.data_ptr()
"""
THIEF = """
import ctypes, glob, torch
torch.zeros(1, device="cuda")
cuda = ctypes.CDLL("libcuda.so.1")
place, size = ctypes.c_uint64({address}), ctypes.c_size_t(4096)
mine = ctypes.create_string_buffer(4096)
result = [cuda.cuMemcpyDtoH_v2(mine, place, size), cuda.cuMemsetD8_v2(place, 0, size)]
"""
SCAN = """
import torch
block = torch.empty(1 << 28, dtype=torch.int32, device="cuda")
result = int((block == 0x5EC2E7).sum())
"""


def test_another_process_memory_can_be_neither_read_nor_written_nor_found_afterwards():
    _, nodes = device_of(target())
    limits = Limits(wall_s=120)

    def start() -> Sandbox:
        return Sandbox.start(SandboxSpec(role="probe", limits=limits, devices=nodes))

    with start() as owner:
        # What a program leaves in its globals is gone with it: the module of torch keeps the block.
        address = run(owner, OWNER + "torch.kept_by_the_test = held")
        with start() as thief:
            assert all(status != 0 for status in run(thief, THIEF.format(address=address)))
        assert run(owner, "import torch\nresult = int((torch.kept_by_the_test == 0x5EC2E7).sum())") == 1 << 24
    with start() as heir:
        assert run(heir, SCAN) == 0
