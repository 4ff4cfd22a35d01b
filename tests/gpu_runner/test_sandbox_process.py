"""The life of a sandboxed process: asked, bounded, cancelled, killed, forked; and what there is without a boundary."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from sandboxes import ROOT, SMALL, dead, namespace_of, processes_in, run, start

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
    process,
    recipe,
    selftest,
    template,
    watch,
)
from gpu_runner.sandbox import launch as launching
from gpu_runner.sandbox.channel import ANSWER_BYTES
from gpu_runner.sandbox.keeper.main import descendants

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


# Forked from a process that has what they need.


SEEN = """
held = []
for fd in map(int, os.listdir('/proc/self/fd')):
    try:
        held += [os.readlink(f'/proc/self/fd/{fd}').split(':')[0]] if fd > 2 else []
    except OSError:
        pass  # the listing's own
ours = [name for name in sys.modules if name.split('.')[0] == 'keeper']
threads = sys.modules['torch'].get_num_threads() if 'torch' in sys.modules else 0
result = ['torch' in sys.modules, threads, ours, len(os.listdir('/proc/self/task')), sorted(held)]
"""


def test_a_process_of_the_template_has_torch_and_takes_its_threads_and_nothing_else_of_it() -> None:
    spec = SandboxSpec(role="judge", limits=Limits(wall_s=60), threads=1)
    with Sandbox(config(), spec.limits, 1, (), kind="judge") as sandbox:
        sandbox.assign(dataclasses.replace(spec, role="probe"))
        torch, threads, ours, tasks, descriptors = run(sandbox, SEEN)
    assert (torch, threads, ours, tasks) == (True, 1, [], 1)
    assert descriptors == ["/memfd", "socket"], "the memory for its answers and its channel"


def test_two_processes_of_one_template_draw_different_numbers() -> None:
    body, draws = "import random, tempfile\nresult = [random.random(), next(tempfile._get_candidate_names())]", []
    for _ in range(2):
        with start() as sandbox:
            draws.append(run(sandbox, body))
    assert draws[0][0] != draws[1][0]
    assert draws[0][1] != draws[1][1]


RANDOM = """
import torch, multiprocessing.process
result = [torch.initial_seed(), torch.rand(3).tolist(), multiprocessing.process.current_process().authkey.hex(), hash('a text')]
"""


def drawn(kind: template.Kind) -> list[Any]:
    with Sandbox(config(), Limits(wall_s=60), 1, (), kind=kind) as sandbox:
        sandbox.assign(SandboxSpec(role="probe", limits=Limits(wall_s=60)))
        return list(run(sandbox, RANDOM))


def test_no_two_processes_have_torchs_first_seed_or_a_key_in_common() -> None:
    first, second = drawn("judge"), drawn("judge")
    assert first[0] != second[0]
    assert first[1] != second[1]
    assert first[2] != second[2]


def test_a_reference_a_candidate_its_second_process_and_the_judge_order_sets_of_texts_by_seeds_of_their_own() -> None:
    assert len({drawn(kind)[3] for kind in template.WITH_TORCH}) == len(template.WITH_TORCH)


def test_every_second_candidate_is_forked_from_another_template(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[str] = []
    real = process.launch

    def watched(*given: Any) -> Any:
        kinds.append(given[-1])
        return real(*given)

    monkeypatch.setattr(process, "launch", watched)
    for role in ("candidate", "candidate", "judge"):
        Sandbox.start(SandboxSpec(role=role, limits=Limits(wall_s=60))).close()
    assert sorted(kinds) == ["again", "candidate", "judge"]


def test_what_one_program_leaves_on_its_standard_input_the_next_does_not_find() -> None:
    leave = "fcntl.fcntl(0, fcntl.F_SETFL, os.O_APPEND | os.O_NONBLOCK)\nresult = 0"
    look = "flags = os.O_APPEND | os.O_NONBLOCK | os.O_RDWR | os.O_WRONLY\n"
    look += "result = [fcntl.fcntl(0, fcntl.F_GETFL) & flags, os.read(0, 1).hex()]"
    with start() as sandbox:
        run(sandbox, leave)
    with start() as sandbox:
        assert run(sandbox, look) == [0, ""]


def test_an_exception_while_the_template_answers_shifts_no_later_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    used = template.shared("plain")
    with start():
        pass

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(template.socket, "recv_fds", interrupted)
        with pytest.raises(KeyboardInterrupt):
            start()
    for _ in range(2):
        with start() as sandbox:
            assert sandbox.alive
            assert run(sandbox, "result = 1") == 1
            sandbox.kill()
            assert not sandbox.alive
    assert template.shared("plain") is used


def test_a_forked_process_ends_without_its_parents_templates() -> None:
    with start() as sandbox:
        code = (
            "import os, sys; from gpu_runner.sandbox import template; t = template.shared('plain'); t.warm(); pid = os.fork()\n"
        )
        code += "if pid == 0:\n    sys.exit(0)\nos.waitpid(pid, 0); print(t._popen.poll())"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
        assert done.stdout.strip() == "None", done.stderr
        assert run(sandbox, "result = 1") == 1


def test_a_runner_that_owns_its_python_forks_no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the link to its own program a fork would reach the file where it is not read-only."""
    monkeypatch.setattr(launching, "forkable", lambda: False)
    with Sandbox.start(SandboxSpec(role="judge", limits=Limits(wall_s=60))) as sandbox:
        assert "main.py" in Path(f"/proc/{descendants(sandbox.pid)[-1]}/cmdline").read_text()
    monkeypatch.undo()
    launching.forkable.cache_clear()
    monkeypatch.setattr(launching.os, "getuid", lambda: os.stat(sys.executable).st_uid or 1)
    monkeypatch.setattr(launching.os, "stat", lambda path: os.stat_result((0o755, 0, 0, 1, 1, 0, 0, 0, 0, 0)))
    assert not launching.forkable()
    monkeypatch.undo()
    launching.forkable.cache_clear()


def test_a_template_that_was_ended_is_started_again_and_its_sandboxes_live_on() -> None:
    with start() as first:
        used = template.shared("plain")
        assert used._popen is not None
        used._popen.kill()
        used._popen.wait()
        with start() as second:
            assert run(second, "result = 2") == 2
        assert run(first, "result = 1") == 1


def test_a_template_ends_with_its_owner(tmp_path: Path) -> None:
    made = (
        "import os, time; from gpu_runner.sandbox import template; t = template.shared('plain'); t.warm();"
        " print(t._popen.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", made], capture_output=True, text=True, cwd=ROOT, timeout=60)
    pid = done.stdout.strip()
    deadline = time.monotonic() + 10
    while not dead(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert dead(pid), done.stderr


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "a/../../b", ""])
def test_a_file_outside_the_job_is_refused_before_anything_starts(path: str) -> None:
    with pytest.raises(ValueError, match="inside the job"):
        SandboxSpec(role="probe", files={path: "x"})


def test_a_role_that_nobody_has_is_refused() -> None:
    with pytest.raises(ValueError, match="landlord"):
        SandboxSpec(role="landlord")  # type: ignore[arg-type]
