"""Hostile references at analysis, behind the real boundary: each ends as a refusal in words, and nothing of it stays."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_runner.contracts import Analysis, Limits

ROOT = Path(__file__).resolve().parents[2]
NAME = f"hostile-{os.getpid()}"[:15]  # what the programs call their processes; the kernel keeps 15 characters
LIMITS = Limits(wall_s=60, memory_mib=2048, processes=64, tmp_mib=64, output_kib=256)

PROGRAM = f"""
import ctypes, os, signal, socket, subprocess, sys, threading, time
import torch
import torch.nn as nn

ctypes.CDLL(None).prctl(15, b"{NAME}", 0, 0, 0)
{{at_import}}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {{at_init}}

    def forward(self, x):
        {{at_forward}}
        return x + 1

def get_inputs():
    {{at_inputs}}
    return [torch.randn(8, 16)]
"""

FORKS = "[os.fork() for _ in range(40)]; time.sleep(90)"
LEFT_BEHIND = "[os.fork() or (os.setsid(), time.sleep(90), os._exit(0)) for _ in range(3)]; "

# Where the deed is done, the deed, and the code of the refusal.
HOSTILE: dict[str, tuple[str, str, str]] = {
    "hangs at import": ("at_import", "while True: pass", "timed_out"),
    "hangs in get_inputs": ("at_inputs", "time.sleep(90)", "timed_out"),
    "stops itself": ("at_forward", "os.kill(os.getpid(), signal.SIGSTOP)", "timed_out"),
    "exits at import": ("at_import", "sys.exit(0)", "crash_import"),
    "exits in the constructor": ("at_init", "os._exit(0)", "crashed"),
    "exits in get_inputs": ("at_inputs", "os._exit(0)", "crashed"),
    "raises what is no error": ("at_inputs", "raise KeyboardInterrupt", "crashed"),
    "ends everybody it sees": ("at_init", "os.kill(-1, 9)", "crash_init"),
    "jumps to nowhere": ("at_forward", "ctypes.string_at(0)", "crashed"),
    "calls itself without end": ("at_forward", "return self.forward(x)", "crash_forward"),
    "takes all memory in the constructor": ("at_init", "h = [bytearray(1 << 26) for _ in range(999)]", "out_of_memory"),
    "takes all memory in get_inputs": ("at_inputs", "held = [torch.ones(1 << 24) for _ in range(1000)]", "out_of_memory"),
    "forks without end": ("at_forward", "[os.fork() for _ in range(1000)]", "crash_forward"),
    "forks and waits": ("at_init", FORKS, "crash_init"),
    "leaves children behind and raises": ("at_init", LEFT_BEHIND + "raise ValueError('now')", "crash_init"),
    "leaves children behind and exits": ("at_inputs", LEFT_BEHIND + "os._exit(1)", "crashed"),
    "starts a program": ("at_init", "subprocess.run(['/bin/sh', '-c', 'exit 3'], check=True)", "crash_init"),
    "asks the network": ("at_import", "socket.create_connection(('1.1.1.1', 53), 5)", "crash_import"),
    "asks for a name": ("at_init", "socket.getaddrinfo('example.org', 80)", "crash_init"),
    # The project may lie below a folder that is the program's own inside: its file then lands there, and is gone with it.
    "writes into the project": ("at_import", f"import pathlib; pathlib.Path('{ROOT}').mkdir(parents=True, exist_ok=True); "
                                f"open('{ROOT}/{NAME}', 'w').write('x'); raise OSError", "crash_import"),
    "writes beside the interpreter": ("at_init", f"open(sys.prefix + '/{NAME}', 'w').write('x'); raise OSError", "crash_init"),
    "fills the disk": ("at_forward", f"open('/tmp/{NAME}', 'wb').write(bytes(1 << 28))", "crash_forward"),
    "prints megabytes": ("at_forward", "[print('x' * 1000) for _ in range(20000)]", "crashed"),
    "returns a text": ("at_forward", "return 'done'", "returns_nothing"),
    "returns an object": ("at_forward", "return object()", "unsupported_outputs"),
    "returns a list without end": ("at_forward", "l = []; l.append(l); return l", "unsupported_outputs"),
    "returns other numbers each time": ("at_forward", "return x + time.time_ns() % 1000", "stochastic"),
}  # fmt: skip


def alive() -> list[int]:
    """Processes of this machine that carry the programs' name."""
    found = []
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            state = (comm.parent / "stat").read_text().rpartition(")")[2].split()[0]
            if comm.read_text().strip() == NAME and state not in "ZX":
                found.append(int(comm.parent.name))
        except OSError:
            continue
    return found


def all_gone(seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while alive():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def written(where: str, deed: str) -> str:
    return PROGRAM.format(**dict.fromkeys(("at_import", "at_init", "at_forward", "at_inputs"), "pass") | {where: deed})


@pytest.mark.parametrize("name", HOSTILE)
def test_a_reference_that(name: str, analyse: Callable[..., Analysis]) -> None:
    where, deed, code = HOSTILE[name]
    limits = LIMITS.model_copy(update={"wall_s": 9.0}) if code == "timed_out" else LIMITS
    refusal = analyse(written(where, deed), limits=limits).refusal
    assert refusal is not None
    assert refusal.code == code, refusal
    assert refusal.sentence.endswith(".")
    assert refusal.way_out.endswith(".")
    assert len(refusal.log) < 64 * 1024
    assert all_gone(), [Path(f"/proc/{pid}/status").read_text() for pid in alive()]
    assert not [path for path in (ROOT / NAME, Path(sys.prefix) / NAME, Path("/tmp") / NAME) if path.exists()]


def test_the_look_for_processes_sees_them_while_they_are_there(analyse: Callable[..., Analysis]) -> None:
    done = threading.Thread(target=analyse, args=(written("at_init", FORKS),), kwargs={"limits": LIMITS})
    done.start()
    end = time.monotonic() + 20
    most = 0
    while done.is_alive() and time.monotonic() < end and most < 3:
        most = max(most, len(alive()))
        time.sleep(0.02)
    done.join(60)
    assert most >= 3
    assert all_gone()


def test_the_hands_serve_the_next_program_as_if_nothing_had_been(analyse: Callable[..., Analysis]) -> None:
    assert analyse(written("at_init", "os.kill(os.getpid(), 9)"), limits=LIMITS).refusal is not None
    assert analyse(written("at_init", "pass")).refusal is None


FORGED = {
    "no entry": "payload.pop('entry', None)",
    "no fingerprints": "payload.update({'prints': None} if 'prints' in payload else {})",
    "no seconds": "payload.update({'seconds': []} if 'output' in payload else {})",
}


@pytest.mark.parametrize("name", FORGED)
def test_an_answer_that_our_code_cannot_have_given_is_called_so(name: str, analyse: Callable[..., Analysis]) -> None:
    patch = (
        "channel = sys.modules['stitch_child.channel'].Channel; real = channel.send\n"
        f"def send(self, kind, payload):\n    {FORGED[name]}\n    real(self, kind, payload)\n"
        "channel.send = send"
    )
    refusal = analyse(written("at_import", patch), limits=LIMITS).refusal
    assert refusal is not None
    assert refusal.code == "forged_answer", refusal
