"""Programs that end their process, or have it ended."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts import Verdict
from gpu_runner.sandbox import ChildCrashed, ChildMemory, ChildOutputLimit, ChildTimedOut, SandboxError


@dataclass(frozen=True)
class Bomb:
    """`ends`: how a bare process ends. `verdict` and `refusal`: what it is called as a candidate and as a reference.

    `quick`: tried everywhere; the others are for the long run behind Landlock and before the Verifier.
    """

    body: str
    ends: type[SandboxError] = ChildCrashed
    verdict: str = Verdict.CRASHED
    refusal: str = "crashed"
    quick: bool = False


def _lasting(body: str, quick: bool = False) -> Bomb:
    return Bomb(body, ChildTimedOut, Verdict.TIMED_OUT, "timed_out", quick)


def _greedy(body: str, quick: bool = False) -> Bomb:
    return Bomb(body, ChildMemory, Verdict.CRASHED, "out_of_memory", quick)


_IGNORES = """
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
"""
BOMBS: dict[str, Bomb] = {
    "takes memory": _greedy("held = []\nwhile True: held.append(b'x' * (8 << 20))", quick=True),
    "takes shared memory": _greedy(
        "held = []\nwhile True:\n    m = mmap.mmap(-1, 8 << 20)\n    m[:] = b'x' * (8 << 20)\n    held.append(m)"
    ),
    "takes memory in many processes": _greedy(
        """
for _ in range(20):
    if os.fork() == 0:
        held = b'x' * (24 << 20)
        time.sleep(60)
held = []
while True:
    held.append(b'x' * (8 << 20))
"""
    ),
    "ignores every signal and spins": _lasting(_IGNORES + "while True: pass", quick=True),
    "ignores every signal and waits in the kernel": _lasting(
        _IGNORES + "a, b = os.pipe()\nfor _ in range(8):\n    if os.fork() == 0: break\nwhile True: os.read(a, 1)"
    ),
    "stops itself": _lasting("os.kill(os.getpid(), signal.SIGSTOP)"),
    "sleeps and says nothing": _lasting("time.sleep(600)"),
    "forks in every child": _lasting("while True:\n    try: os.fork()\n    except OSError: pass"),
    "hides behind its name": _lasting(
        "for _ in range(4):\n    os.fork()\nlibc.prctl(15, b') Z 0 (\\n) X', 0, 0, 0)\nwhile True: pass"
    ),
    "forbids others to look at it": _lasting("libc.prctl(4, 0, 0, 0, 0)\nos.fork()\nwhile True: pass"),
    "prints without end": Bomb("while True: os.write(1, b'x' * 65536)", ChildOutputLimit, quick=True),
    "prints errors without end from a child": Bomb(
        "if os.fork() == 0:\n    while True: os.write(2, b'x' * 65536)\ntime.sleep(600)", ChildOutputLimit
    ),
    "crashes": Bomb("ctypes.string_at(0)", quick=True),
    "leaves": Bomb("os._exit(0)"),
    "aborts": Bomb("os.abort()"),
    "has a clock end it": Bomb("signal.setitimer(signal.ITIMER_REAL, 0.01)\ntime.sleep(600)"),
    "ends its whole group": Bomb("os.killpg(0, 9)"),
    "closes every descriptor": Bomb("os.closerange(0, 4096)\nos._exit(0)"),
    "becomes another program": Bomb("os.execv('/bin/sleep', ['sleep', '600'])"),
    "writes over its own memory": Bomb(
        "try:\n    with open('/proc/self/mem', 'r+b', 0) as memory:\n"
        "        memory.seek(ctypes.cast(libc.write, ctypes.c_void_p).value & ~4095)\n        memory.write(bytes(4096))\n"
        "except OSError: pass\nos.write(1, b'')\nos._exit(7)"
    ),
    "nests folders without end": Bomb(
        "os.chdir(os.environ['TMPDIR'])\ntry:\n    for _ in range(4000):\n        os.mkdir('d' * 200)\n"
        "        os.chdir('d' * 200)\nexcept OSError: pass\nos._exit(1)"
    ),
    "takes away its own rights to its folders": Bomb(
        "for n in range(50): os.makedirs(f\"{os.environ['TMPDIR']}/{n}/a\")\n"
        "for n in range(50): os.chmod(f\"{os.environ['TMPDIR']}/{n}\", 0)\nos._exit(1)"
    ),
    "leaves daemons behind": Bomb(
        "for _ in range(10):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork(): os._exit(0)\n"
        "        os.closerange(0, 1024)\n        while True: time.sleep(1)\nos._exit(3)",
        quick=True,
    ),
}
