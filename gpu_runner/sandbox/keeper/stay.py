"""How a fork turns into the program that other ways would have to start: what belongs to us is closed and forgotten first."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from collections.abc import Callable
from typing import Any

Program = Callable[[], object]


def close_all_but(kept: set[int]) -> None:
    """Closes every descriptor of this process that is not among `kept`."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with contextlib.suppress(OSError):  # the listing's own
                os.close(int(name))


def nothing_random_in_common() -> None:
    """What modules drew from the system when they were imported is drawn again: forks would have it from one draw."""
    if "torch" in sys.modules:
        sys.modules["torch"].seed()
    if "multiprocessing.process" in sys.modules:
        sys.modules["multiprocessing.process"].current_process().authkey = os.urandom(32)


def program(order: dict[str, Any]) -> Program:
    """Everything of the keeper's is given up now; what is returned is called where nothing of it is on the stack."""
    close_all_but({0, 1, 2, *order["program_fds"]})
    os.environ.clear()  # noqa: TID251 - the program's own from here on
    os.environ.update(order["env"])  # noqa: TID251
    if "tempfile" in sys.modules:
        vars(sys.modules["tempfile"])["tempdir"] = None  # what an import looked up is the template's, not the program's
    arguments = order["program"]

    def start() -> None:
        ours, folder = __package__, os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        sys.path[:] = [path for path in sys.path if path != folder]
        for name in [name for name in sys.modules if name.split(".")[0] == ours]:
            del sys.modules[name]
        sys.argv = list(arguments)
        nothing_random_in_common()
        runpy.run_path(arguments[0], run_name="__main__")

    return start
