"""Tries to break out, and says what worked. Harmless if something does: nothing is written, no process is hurt."""

import ctypes
import os
import resource
import socket
import sys
import types
from collections.abc import Callable

_libc = ctypes.CDLL(None, use_errno=True)
_OPEN_TO_ALL = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - the machine's, where nothing may be made


def _refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except OSError:
        return True
    return False


def _call(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")


def _socket(family: int) -> None:
    socket.socket(family, socket.SOCK_STREAM).close()


def _status(field: str) -> str:
    with open("/proc/self/status") as file:
        return next(line.split(":", 1)[1].strip() for line in file if line.startswith(f"{field}:"))


def _descriptors() -> list[int]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            os.fstat(fd)
        except OSError:
            continue  # the listing's own
        found.append(fd)
    return found


def _foreign_processes() -> list[str]:
    """Every process here must be this one or bubblewrap's first one."""
    return [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]


def _hidden() -> dict[str, Callable[[], bool]]:
    """What holds behind namespaces: it is not there."""
    return {
        "it can read the password file": lambda: (
            _refused(lambda: os.stat("/etc/shadow")) and _refused(lambda: os.stat("/etc/passwd"))
        ),
        "it can see /sys": lambda: _refused(lambda: os.stat("/sys/kernel")),
        "it can see other processes": lambda: not _foreign_processes(),
        "it can read its starter's environment": lambda: b"PATH=" not in open("/proc/1/environ", "rb").read(),
        "it has capabilities in reserve": lambda: int(_status("CapBnd"), 16) == 0,
    }


def _forbidden() -> dict[str, Callable[[], bool]]:
    """What holds without namespaces: it is there, and may not be opened or reached."""
    starter = os.getppid()
    return {
        "it can read the password file": lambda: _refused(lambda: open("/etc/passwd")),
        "it can list folders": lambda: all(_refused(lambda p=p: os.listdir(p)) for p in ("/", "/etc", "/sys", *_OPEN_TO_ALL)),
        "it can list processes": lambda: _refused(lambda: os.listdir("/proc")),
        "it can read its starter's environment": lambda: _refused(lambda: open(f"/proc/{starter}/environ")),
        "it can signal other processes": lambda: _refused(lambda: os.kill(starter, 0)),
        "it can write where all may": lambda: all(
            _refused(lambda p=p: os.close(os.open(p, os.O_WRONLY | os.O_TMPFILE))) for p in _OPEN_TO_ALL
        ),
        "it can make Unix sockets": lambda: _refused(lambda: _socket(socket.AF_UNIX)),
    }


def checks(namespaces: bool) -> dict[str, Callable[[], bool]]:
    """What must hold, by the sentence's end that is shown when it does not."""
    return {
        **(_hidden() if namespaces else _forbidden()),
        "it can open network sockets": lambda: all(_refused(lambda f=f: _socket(f)) for f in (socket.AF_INET, socket.AF_INET6)),
        "it can open sockets to the hypervisor": lambda: _refused(lambda: _socket(40)),
        "it can trace processes": lambda: _refused(lambda: _call(_libc.ptrace(0, 0, 0, 0))),
        "it can make namespaces": lambda: _refused(lambda: _call(_libc.unshare(0x10000000))),
        "it can make memory that no limit counts": lambda: _refused(lambda: os.memfd_create("probe")),
        "it has capabilities": lambda: all(int(_status(f"Cap{kind}"), 16) == 0 for kind in ("Inh", "Prm", "Eff", "Amb")),
        "it may gain privileges": lambda: _status("NoNewPrivs") == "1",
        "it has no system-call filter": lambda: _status("Seccomp") == "2",
        "it is root": lambda: os.getuid() != 0 and _status("Uid").split()[0] != "0",
        "it can write outside its own folders": lambda: (
            _refused(lambda: os.mkdir("/usr/probe")) and _refused(lambda: os.mkdir("/probe"))
        ),
        # Opened for writing, never written: on a machine where this works, writing would change the host.
        "it can change the kernel's settings": lambda: _refused(
            lambda: os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
        ),
        "it has more descriptors than it should": lambda: len(_descriptors()) <= 5,
    }


def handle(kind: str, payload: dict, fds: list[int], emit: Callable[[dict], None]) -> dict:
    """`selftest` answers {"not_stopped": [phrase, …]}. It is told whether there should be `namespaces`, and whether its user is
    its own (`own_uid`).

    `run` executes {"program": text} with `emit` and `fds` in its globals and answers {"result": what it left there}: how the
    tests of the boundary try programs of their own.
    """
    if kind == "run":
        module = sys.modules["program"] = types.ModuleType("program")
        vars(module).update(emit=emit, fds=fds, result=None)
        exec(compile(payload["program"], "program.py", "exec"), vars(module))  # noqa: S102 - what a sandbox is for
        return {"result": module.result}
    if kind != "selftest":
        raise ValueError(f"a probe does not know how to {kind}")
    broken = []
    if payload["own_uid"] and resource.getrlimit(resource.RLIMIT_NPROC)[1] == resource.RLIM_INFINITY:
        broken.append("its processes are not limited")
    for phrase, holds in checks(payload["namespaces"]).items():
        try:
            if not holds():
                broken.append(phrase)
        except Exception as error:
            broken.append(f"{phrase}: the probe failed with {type(error).__name__}: {error}")
    return {"not_stopped": broken}
