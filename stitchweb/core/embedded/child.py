"""Becomes another program that ends when its parent does: `python child.py PARENT_PID -- command…`.

The kernel sends the signal when the thread that started this process ends, so the supervisor starts children from its main
thread alone. Runs without the site's modules, hence quickly.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[3:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(0)  # it was gone before the wish was filed
    os.execvp(command[0], command)  # noqa: S606  the supervisor's own commands


if __name__ == "__main__":
    main()
