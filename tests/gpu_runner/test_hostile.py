"""Hostile programs behind the real boundary: each must be stopped, and nothing of it may stay."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_bombs import BOMBS
from hostile_programs import ATTEMPTS, filled
from hostile_without_namespaces import WITHOUT_NAMESPACES
from sandboxes import LANDLOCK, SMALL, namespace_of, processes_in, run, start, worth_stealing

from gpu_runner.config import SandboxKind
from gpu_runner.sandbox import (
    ChildCrashed,
    ChildError,
    ChildMemory,
    ChildProtocol,
    ChildTimedOut,
    Memory,
    Sandbox,
    cgroup,
)
from gpu_runner.sandbox.keeper.main import descendants

ROOT = Path(__file__).resolve().parents[2]
# An ordinary user's processes cannot be told from the runner's own there.
_ROOT_ONLY = [pytest.mark.skipif(os.getuid() != 0, reason="only root gives each sandbox a user of its own")]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with worth_stealing(tmp_path_factory.mktemp("host"), SMALL) as facts:
        yield facts


Attempts = dict[str, tuple[str, object]]


@pytest.fixture(scope="module", params=["bubblewrap", LANDLOCK])
def shared_sandbox(request: pytest.FixtureRequest, host: dict[str, str]) -> Iterator[tuple[Sandbox, Attempts]]:
    with start(SMALL.model_copy(update={"wall_s": 300.0}), kind=request.param) as sandbox:
        yield sandbox, ATTEMPTS if request.param == "bubblewrap" else WITHOUT_NAMESPACES


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_program_that(attempt: str, shared_sandbox: tuple[Sandbox, Attempts], host: dict[str, str]) -> None:
    sandbox, attempts = shared_sandbox
    body, stopped = attempts[attempt]
    body = filled(body, host)
    with Memory.of(b"inputs") as inputs, Memory.create(4096) as outputs:
        inputs_before = inputs.read(6)
        assert run(sandbox, body, fds=[inputs.fd, outputs.fd]) == stopped
        assert inputs.read(6) == inputs_before


def _bombs() -> Iterator[object]:
    """Each behind bubblewrap, and behind Landlock, where most of them are for the long run."""
    for bomb in BOMBS:
        yield pytest.param(bomb, "bubblewrap", id=bomb)
        marks = [*LANDLOCK.marks, *_ROOT_ONLY, *([] if BOMBS[bomb].quick else [pytest.mark.slow])]
        yield pytest.param(bomb, "landlock", id=f"{bomb}, behind Landlock", marks=marks)


@pytest.mark.parametrize(("bomb", "kind"), list(_bombs()))
def test_nothing_stays_of_a_program_that(bomb: str, kind: SandboxKind) -> None:
    body, expected = BOMBS[bomb].body, BOMBS[bomb].ends
    # What lasts needs room: fifty processes that have forked one another hold more than the bombs of memory may.
    lasts = {"wall_s": 2.0, "memory_mib": 768} if expected is ChildTimedOut else {"wall_s": 20.0}
    limits = SMALL.model_copy(update=lasts)
    with start(limits, kind=kind) as sandbox:
        namespace = namespace_of(sandbox)
        assert processes_in(namespace)
        with pytest.raises(expected) as caught:
            run(sandbox, body)
        assert caught.type is expected
        assert sandbox.ended_reason == caught.value.sentence
        assert processes_in(namespace) == []
        assert len(sandbox.output) < 20_000


@pytest.mark.skipif(cgroup.base().kind == "none", reason="only a resource group counts inodes")
def test_a_program_that_makes_empty_files_without_end_is_ended_for_memory() -> None:
    limits = SMALL.model_copy(update={"memory_mib": 48, "wall_s": 60.0})
    with start(limits) as sandbox, pytest.raises(ChildMemory):
        run(sandbox, "n = 0\nwhile True:\n    n += 1\n    os.close(os.open(f'/tmp/{n:x}' + 'x' * 200, os.O_CREAT))")


@pytest.mark.parametrize("kind", ["bubblewrap", pytest.param("landlock", marks=[*LANDLOCK.marks, *_ROOT_ONLY])])
@pytest.mark.parametrize("of", ["process", "thread"])
def test_a_bomb_of_every(of: str, kind: SandboxKind) -> None:
    fork = "if os.fork() == 0: time.sleep(60)\n        made += 1"
    thread = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n        made += 1"
    body = f"""
made = 0
try:
    while True:
        {fork if of == "process" else thread}
except (OSError, RuntimeError):
    pass
result = made
"""
    with start(kind=kind) as sandbox:
        namespace = namespace_of(sandbox)
        assert 0 < run(sandbox, body) <= SMALL.processes
    assert processes_in(namespace) == []


_SOCKET = """
def is_socket(name):
    try:
        return os.readlink(f'/proc/self/fd/{name}').startswith('socket')
    except OSError:
        return False
s = socket.socket(fileno=os.dup(int(next(filter(is_socket, os.listdir('/proc/self/fd'))))))
"""
_ASKED = "import gc, json\nchannel = next(o for o in gc.get_objects() if type(o).__name__ == 'Channel')\n"
MESSAGES = {
    "bytes of a pickle": "s.send(b'\\x80\\x04\\x95\\x05\\x00\\x00\\x00.')",
    "something too long": "s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20); s.send(b'[' + b' ' * 150000 + b']')",
    "an unknown kind": "channel.send('verdict', {})",
    "that it is ready again": "channel.send('ready', {})",
    "lists nested too deeply": "s.send(b'[' * 60000)",
    "a payload that is no object": "channel.send('done', [1])",
    "an answer before the question": "s.send(json.dumps({'kind': 'done', 'payload': {}, 'question': ''}).encode())",
    "a descriptor": "socket.send_fds(s, [b'{}'], [0])",
    "a long answer that is not there": "s.send(b'{\"long\": 99999999999}')",
    "a long answer of a negative size": "s.send(b'{\"long\": -5}')",
    "a long answer that is not JSON": "s.send(b'{\"long\": 50}')",
    "keys of its own": 's.send(b\'{"kind": "done", "payload": {}, "question": "", "verdict": 1}\')',
    "progress without end": "while True: emit({})",
}


@pytest.mark.parametrize("message", MESSAGES)
def test_a_program_is_ended_that_sends(message: str) -> None:
    with start() as sandbox:
        namespace = namespace_of(sandbox)
        with pytest.raises(ChildProtocol):
            run(sandbox, _SOCKET + _ASKED + MESSAGES[message] + "\ntime.sleep(600)")
        assert processes_in(namespace) == []


def test_a_forged_answer_to_a_later_question_is_refused() -> None:
    with start() as sandbox:
        forge = (
            _SOCKET
            + _ASKED
            + "s.send(json.dumps({'kind':'done','payload':{'result':1},'question':channel._question}).encode())"
        )
        assert run(sandbox, forge) == 1
        with pytest.raises(ChildProtocol):
            run(sandbox, "result = 2")


def test_a_verdict_written_to_every_descriptor_is_no_answer() -> None:
    body = """
for fd in range(3):
    try: os.write(fd, b'{"verdict": "verified"}')
    except OSError: pass
os._exit(0)
"""
    with start() as sandbox, pytest.raises(ChildCrashed) as caught:
        run(sandbox, body)
    assert caught.value.exit_code == 0
    assert "verified" in caught.value.output


def test_output_is_text_whatever_was_printed() -> None:
    with start() as sandbox:
        run(sandbox, r"os.write(1, b'\xff\xfe<script>alert(1)</script>\x1b[31m\x00')")
        deadline = time.monotonic() + 5
        while "script" not in sandbox.output and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "<script>" in sandbox.output
        sandbox.output.encode("utf-8")


def test_what_one_sandbox_leaves_in_every_writable_place_the_next_does_not_see() -> None:
    places = "places = [p for p in {'/tmp', '/dev/shm', '/job', os.path.expanduser('~')} if os.access(p, os.W_OK)]\n"
    with start() as sandbox:
        assert run(sandbox, places + "for p in places: os.makedirs(p + '/.cache/planted')\nresult = len(places)") == 3
    with start() as sandbox:
        assert run(sandbox, places + "result = [p for p in places if os.path.exists(p + '/.cache')]") == []


def test_two_sandboxes_at_once_are_different_users() -> None:
    with start() as one, start() as other:
        owners = {os.stat(f"/proc/{descendants(sandbox.pid)[-1]}").st_uid for sandbox in (one, other)}
    if os.getuid() == 0:
        assert len(owners) == 2
    assert 0 not in owners


def test_killing_the_worker_ends_its_sandboxes() -> None:
    worker = (
        f"import sys; sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(ROOT)!r}]\n"
        "import sandboxes\n"
        "sandbox = sandboxes.start()\n"
        "print(sandboxes.namespace_of(sandbox), flush=True)\n"
        "sandboxes.run(sandbox, 'time.sleep(600)')\n"
    )
    with subprocess.Popen([sys.executable, "-c", worker], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        namespace = process.stdout.readline().strip()
        assert processes_in(namespace)
        process.kill()
        process.wait()
        deadline = time.monotonic() + 5
        while processes_in(namespace) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert processes_in(namespace) == []


def test_a_program_that_raises_anything_answers_with_an_error_and_can_be_asked_again() -> None:
    with start() as sandbox:
        for raised in ("SystemExit(0)", "KeyboardInterrupt()", "RecursionError('deep')", "MemoryError()"):
            with pytest.raises(ChildError, match=raised.split("(")[0]):
                run(sandbox, f"raise {raised}")
        assert run(sandbox, "result = 'still here'") == "still here"
