"""How much memory a sandbox may have."""

from __future__ import annotations

from gpu_runner.contracts import Limits, Mode, Precision
from gpu_runner.job import Job, most_memory_mib


def job(limits: Limits) -> Job:
    return Job("cpu", limits, Mode.EVAL, Precision.AS_REFERENCE, lambda _: None, lambda: False)


def test_beside_a_gpu_a_program_may_hold_tensors_of_its_size():
    assert Limits.of("sm_90", 60.0).memory_mib > 4 * Limits.of("cpu", 60.0).memory_mib
    assert Limits.of("sm_90", 60.0).wall_s == 60.0


def test_no_sandbox_may_have_all_of_its_machine():
    assert job(Limits(memory_mib=1 << 30)).limits.memory_mib == most_memory_mib()
    assert job(Limits(memory_mib=64)).limits.memory_mib == 64
