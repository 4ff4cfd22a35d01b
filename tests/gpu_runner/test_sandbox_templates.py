"""Sandboxes are forks of processes that have torch: what forks have, must not have in common, and how they end."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from sandboxes import ROOT, dead, run, start

from gpu_runner.config import config
from gpu_runner.contracts import Limits
from gpu_runner.sandbox import Sandbox, SandboxSpec, process, template
from gpu_runner.sandbox.keeper.main import descendants

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
    monkeypatch.setattr(template, "forkable", lambda: False)
    with Sandbox.start(SandboxSpec(role="judge", limits=Limits(wall_s=60))) as sandbox:
        assert "main.py" in Path(f"/proc/{descendants(sandbox.pid)[-1]}/cmdline").read_text()
    monkeypatch.undo()
    template.forkable.cache_clear()
    monkeypatch.setattr(template.os, "getuid", lambda: os.stat(sys.executable).st_uid or 1)
    monkeypatch.setattr(template.os, "stat", lambda path: os.stat_result((0o755, 0, 0, 1, 1, 0, 0, 0, 0, 0)))
    assert not template.forkable()
    monkeypatch.undo()
    template.forkable.cache_clear()


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
