"""The command line's own manners, without a loop behind them."""

from __future__ import annotations

import array
import fcntl
import os
import signal
import subprocess
import sys
import termios
import textwrap
import time

PIPE = 1 << 16  # bytes that Linux keeps of a pipe before its writer has to wait


def test_an_interrupt_in_the_middle_of_a_line_ends_cleanly() -> None:
    """A handler that printed through the same stream would enter it twice, which Python refuses."""
    code = f"""
        from agents.__main__ import _interrupts, _say
        with _interrupts() as asked:
            _say("x" * {4 * PIPE})
            assert asked()
    """
    # -E: an unbuffered stream, which the environment may ask for, has nothing to be entered twice.
    process = subprocess.Popen([sys.executable, "-E", "-c", textwrap.dedent(code)], stderr=subprocess.PIPE)
    assert process.stderr is not None
    waiting, until = array.array("i", [0]), time.monotonic() + 60
    while waiting[0] < PIPE:
        assert time.monotonic() < until, "it never filled the pipe"
        time.sleep(0.01)
        fcntl.ioctl(process.stderr, termios.FIONREAD, waiting)
    os.kill(process.pid, signal.SIGINT)
    time.sleep(0.5)  # the writer sees the signal before it finds room again
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said[-2000:].decode()
    assert b"Ending" in said
