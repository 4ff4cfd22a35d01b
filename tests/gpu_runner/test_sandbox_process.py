"""The life of a sandboxed process: asked, bounded, cancelled, killed, forked; and what there is without a boundary."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from sandboxes import SMALL, namespace_of, processes_in, run, start

from gpu_runner.config import config
from gpu_runner.contracts import Limits
from gpu_runner.hands import Cancelled
from gpu_runner.sandbox import (
    ChildCrashed,
    ChildError,
    ChildMemory,
    ChildTimedOut,
    Memory,
    Sandbox,
    SandboxSpec,
    SandboxUnavailable,
    cgroup,
    launch,
    recipe,
    selftest,
    watch,
)
from gpu_runner.sandbox.channel import ANSWER_BYTES

UNSAFE = dataclasses.replace(config(), sandbox="unsafe")


def test_files_memories_and_long_messages_travel_both_ways() -> None:
    long = "é" * 100_000
    with start(files={"model_new.py": "text", "kernels/a.bin": b"\x00\xff"}) as sandbox, Memory.create(8192) as memory:
        memory.write(b"hello")
        assert run(sandbox, "result = [open('model_new.py').read(), list(open('kernels/a.bin', 'rb').read())]") == [
            "text",
            [0, 255],
        ]
        assert (
            run(sandbox, "result = os.pread(fds[0], 5, 0).decode(); os.pwrite(fds[0], b'HELLO', 0)", fds=[memory.fd]) == "hello"
        )
        assert memory.read(5) == b"HELLO"
        assert run(sandbox, f"result = {long!r} + '!'") == long + "!"


def test_an_answer_longer_than_its_memory_is_an_error_of_the_program() -> None:
    with start(SMALL.model_copy(update={"memory_mib": 512})) as sandbox, pytest.raises(ChildError, match="too long"):
        run(sandbox, f"result = 'x' * {ANSWER_BYTES}")


def test_progress_arrives_in_order_before_the_answer() -> None:
    seen: list[dict[str, Any]] = []
    with start() as sandbox:
        assert run(sandbox, "for n in range(5): emit({'n': n})\nresult = 'end'", on_progress=seen.append) == "end"
    assert [progress["n"] for progress in seen] == [0, 1, 2, 3, 4]


def test_an_error_carries_its_type_message_and_traceback() -> None:
    with start() as sandbox, pytest.raises(ChildError) as caught:
        run(sandbox, "raise ValueError('no such shape')")
    assert (caught.value.type, caught.value.message) == ("ValueError", "no such shape")
    assert "program.py" in caught.value.traceback


def test_a_role_that_does_not_load_leaves_nothing() -> None:
    groups = _groups()
    with pytest.raises(ChildError):
        Sandbox.start(SandboxSpec(role="probe", limits=SMALL, files={"a": "x", "a/b": "a is a file"}))
    assert _groups() == groups


def test_cancelling_ends_a_request_and_its_process_within_a_second() -> None:
    asked = threading.Event()
    with start() as sandbox:
        namespace = namespace_of(sandbox)
        with pytest.raises(Cancelled):
            run(sandbox, "time.sleep(600)", cancelled=lambda: asked.is_set() or asked.set() or False)  # type: ignore[func-returns-value]
        assert processes_in(namespace) == []


def test_an_exception_of_the_listener_ends_the_process() -> None:
    def listener(progress: dict[str, Any]) -> None:
        raise Cancelled("enough")

    with start() as sandbox:
        namespace = namespace_of(sandbox)
        with pytest.raises(Cancelled, match="enough"):
            run(sandbox, "emit({})\ntime.sleep(600)", on_progress=listener)
        assert processes_in(namespace) == []


def test_another_thread_can_kill_it_and_killing_twice_is_harmless() -> None:
    with start() as sandbox:
        namespace = namespace_of(sandbox)
        waiting = threading.Event()
        killer = threading.Thread(target=lambda: (waiting.wait(), sandbox.kill()))
        killer.start()
        with pytest.raises(ChildCrashed, match="The job was ended"):
            run(sandbox, "emit({})\ntime.sleep(600)", on_progress=lambda _: waiting.set())
        killer.join()
        sandbox.kill()
        assert processes_in(namespace) == []
        with pytest.raises(ChildCrashed):
            run(sandbox, "result = 1")


def test_a_request_may_have_less_time_than_the_job() -> None:
    with start() as sandbox, pytest.raises(ChildTimedOut, match=r"0\.3 s"):
        run(sandbox, "time.sleep(600)", timeout=0.3)


def test_a_process_that_nobody_waits_for_still_ends_at_its_wall_clock() -> None:
    with start(SMALL.model_copy(update={"wall_s": 0.5})) as sandbox:
        namespace = namespace_of(sandbox)
        deadline = time.monotonic() + 10
        while processes_in(namespace) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert processes_in(namespace) == []
        assert "0.5 s" in sandbox.ended_reason


def test_resource_groups_user_ids_and_descriptors_are_given_back() -> None:
    def held() -> tuple[int, list[str]]:
        return len(os.listdir("/proc/self/fd")), _groups()

    with start():
        pass
    before = held()
    for _ in range(3):
        with start() as sandbox:
            run(sandbox, "result = 1")
    assert held() == before


def _groups() -> list[str]:
    base = cgroup.base()
    mine = f"stitchweb-{os.getpid()}-*"
    return sorted(str(folder) for parent in (base.memory, base.pids) for folder in parent.glob(mine) if base.kind != "none")


def test_without_a_resource_group_the_watchdog_ends_what_grows_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "base", lambda: cgroup.Base("none"))
    limits = SMALL.model_copy(update={"memory_mib": 128})
    with start(limits) as sandbox, pytest.raises(ChildMemory, match="128 MiB"):
        run(sandbox, "held = []\nwhile True:\n    held.append(b'x' * (1 << 20))\n    time.sleep(0.002)")


def test_the_watchdog_counts_descendants_and_shared_pages_once() -> None:
    small, large = 60 << 20, 200 << 20
    with start(SMALL.model_copy(update={"memory_mib": 512})) as sandbox:
        assert not watch.grown_beyond(sandbox.pid, small)
        body = """
held = b'x' * (48 << 20)
for _ in range(4):
    if os.fork() == 0:
        time.sleep(60)
if os.fork() == 0:
    own = b'y' * (32 << 20)
    emit({})
    time.sleep(60)
time.sleep(60)
"""
        seen: list[tuple[bool, bool]] = []

        def look(progress: dict[str, Any]) -> None:
            seen.append((watch.grown_beyond(sandbox.pid, small), watch.grown_beyond(sandbox.pid, large)))
            raise Cancelled("seen")

        with pytest.raises(Cancelled):
            run(sandbox, body, on_progress=look)
    assert seen == [(True, False)]


def test_packages_that_the_runner_allows_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "allowed").mkdir(mode=0o755)
    (tmp_path / "allowed" / "allowed_package.py").write_text("VALUE = 7\n")
    settings = dataclasses.replace(config(), packages=(tmp_path / "allowed",))
    with Sandbox(settings, SMALL, 1, ()) as sandbox:
        sandbox.assign(SandboxSpec(role="probe", limits=SMALL))
        assert run(sandbox, "import allowed_package\nresult = allowed_package.VALUE") == 7
        with pytest.raises(ChildError, match=r"Read-only file system|Permission denied"):
            run(sandbox, "import allowed_package\nopen(allowed_package.__file__, 'w')")


@pytest.mark.skipif(cgroup.base().kind == "none", reason="this machine has no resource groups to leave behind")
def test_groups_left_by_a_runner_that_was_killed_are_swept() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = cgroup.base().pids / f"stitchweb-{ended.pid}-0"
    left.mkdir()
    cgroup.base.cache_clear()
    cgroup.base()
    assert not left.exists()


# No boundary, no program.


def test_a_sandbox_that_cannot_start_is_a_sentence_with_a_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "a" / "b" / "bwrap"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    for folder in (broken, *broken.parents[:4]):
        folder.chmod(0o755)
    monkeypatch.setattr(recipe, "bwrap_path", lambda: broken)
    groups = _groups()
    with pytest.raises(
        SandboxUnavailable, match=r"could not be started \(bwrap: setting up uid map: Permission denied\)"
    ) as caught:
        start_without_proof()
    assert "SANDBOX=unsafe" in str(caught.value)
    assert _groups() == groups


def start_without_proof() -> Sandbox:
    return Sandbox(config(), SMALL, 1, ())


@pytest.mark.parametrize(("number", "fix"), [(0, "AppArmor"), (1, "unprivileged_userns_clone=1"), (2, "max_user_namespaces")])
def test_a_kernel_switch_that_forbids_namespaces_is_named_with_its_fix(
    number: int, fix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    switches = []
    for index, (_, value, sentence) in enumerate(launch._SWITCHES):
        file = tmp_path / str(index)
        file.write_text(value if index == number else "7")
        switches.append((str(file), value, sentence))
    monkeypatch.setattr(launch, "_SWITCHES", tuple(switches))
    assert fix in launch.why_not_started("bwrap: No permissions")
    assert "sysctl" in launch.blocked_by()


def test_the_self_test_passes_here_and_finds_every_hole_of_an_open_process() -> None:
    assert selftest.run() == []
    with Sandbox(UNSAFE, Limits(), 1, ()) as open_process:
        open_process.assign(SandboxSpec(role="probe"))
        found = open_process.request("selftest", selftest.question(config()))["not_stopped"]
    assert len(found) >= 8


def test_nothing_starts_while_the_self_test_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "_passed", False)
    monkeypatch.setattr(selftest, "run", lambda: ["it can see /sys"])
    for _ in range(2):
        with pytest.raises(SandboxUnavailable, match="it can see /sys"):
            start()


# The setting for one's own programs on one's own machine.


def test_the_unsafe_setting_still_ends_a_process_with_its_group() -> None:
    with Sandbox(UNSAFE, SMALL, 1, ()) as sandbox:
        sandbox.assign(SandboxSpec(role="probe", limits=SMALL, files={"data": "x"}))
        child = run(sandbox, "result = os.fork()\nif result == 0:\n    time.sleep(600)\nassert open('data').read() == 'x'")
        folder = run(sandbox, "result = os.getcwd()")
    deadline = time.monotonic() + 5
    while os.path.exists(f"/proc/{child}") and _state(child) not in "ZX" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{child}") or _state(child) in "ZX"
    assert not os.path.exists(folder)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "a/../../b", ""])
def test_a_file_outside_the_job_is_refused_before_anything_starts(path: str) -> None:
    with pytest.raises(ValueError, match="inside the job"):
        SandboxSpec(role="probe", files={path: "x"})


def test_a_role_that_nobody_has_is_refused() -> None:
    with pytest.raises(ValueError, match="landlord"):
        SandboxSpec(role="landlord")  # type: ignore[arg-type]
