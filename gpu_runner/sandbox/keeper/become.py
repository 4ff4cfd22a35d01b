"""What the keeper's child does before it becomes the program or bubblewrap: it gives up, step by step, everything it may do.

As root it gives that up first: nothing of the user's may ever descend from root, since root outside stays root to the files of
`/proc/sys`, whatever namespace it sits in.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from typing import Any

from . import landlock, stay

libc = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNTS, _BIND, _RECURSIVE, _PRIVATE, _NOSUID_NODEV = 0x00020000, 4096, 16384, 1 << 18, 2 | 4
_SET_DEATH_SIGNAL, _SET_DUMPABLE, _SET_FILTER, _DROP_BOUNDING, _NO_NEW_PRIVILEGES = 1, 4, 22, 24, 38


def check(result: int, what: str) -> None:
    """Raises OSError for a C call that failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def drop_to(uid: int) -> None:
    """Becomes `uid` for good, with no groups."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    arguments = [text.encode() if text is not None else None for text in (source, target, kind)]
    check(libc.mount(*arguments, ctypes.c_ulong(flags), data.encode() if data else None), f"mounting {target}")


def _private_mounts() -> None:
    check(libc.unshare(_NEW_MOUNTS), "a private mount namespace")
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)


def stage(places: list[list[str]], covered: list[str]) -> None:
    """Shows each host path at its place, below folders `covered` with empty ones that only this process and its children see.

    An interpreter below a home folder of mode 700 cannot be reached otherwise by the user that the program runs as.
    """
    _private_mounts()
    # Opened before anything is covered: a source may lie below it.
    sources = [os.open(source, os.O_PATH) for source, _ in places]
    for folder in covered:
        _mount("tmpfs", folder, "tmpfs", _NOSUID_NODEV, "size=1m,mode=755")
    for fd, (source, place) in zip(sources, places, strict=True):
        os.makedirs(os.path.dirname(place), 0o755, exist_ok=True)
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            os.makedirs(place, 0o755, exist_ok=True)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
        try:
            _mount(f"/proc/self/fd/{fd}", place, None, _BIND | _RECURSIVE)
        except OSError as error:
            raise OSError(error.errno, f"showing {source}: {error.strerror}") from None
        os.close(fd)


def _join_groups(files: list[str]) -> None:
    """Enters the job's resource groups; everything started from here on is counted there."""
    for path in files:
        with open(path, "w") as file:
            file.write("0")


def _scratch(folder: str, size: int, uid: int | None) -> None:
    """The job's only writable folder: of a fixed size, in memory, where this process may mount; else on the disk."""
    if uid is not None:
        with contextlib.suppress(OSError):
            _private_mounts()
            _mount("tmpfs", folder, "tmpfs", _NOSUID_NODEV, f"size={size},mode=700")
    for path in (folder, os.path.join(folder, "tmp"), os.path.join(folder, "job")):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        if uid is not None:
            os.chown(path, uid, uid)


def _limit(limits: dict[str, int]) -> None:
    """Takes resource limits for good; a lower one that is there already stays."""
    for name, value in limits.items():
        which = getattr(resource, f"RLIMIT_{name.upper()}")
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))


def drop_bounding() -> None:
    """Gives up the capabilities that a program with file capabilities could hand back. Only root may; others have none."""
    for capability in range(64):
        if libc.prctl(_DROP_BOUNDING, capability, 0, 0, 0) < 0:
            return


def filter_calls(fd: int) -> None:
    """Installs the system-call filter in `fd`, for good and for everything started from here on. Closes it."""
    data = b""
    os.lseek(fd, 0, os.SEEK_SET)
    while chunk := os.read(fd, 1 << 16):
        data += chunk
    os.close(fd)
    code = ctypes.create_string_buffer(data, len(data))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    program = Program(len(data) // 8, ctypes.addressof(code))
    check(libc.prctl(_SET_FILTER, 2, ctypes.byref(program), 0, 0), "the system-call filter")


def _confine(rules: dict[str, Any], filter_fd: int) -> None:
    """Landlock and the system-call filter, both for good and for everything started from here on."""
    # Its own folder of /proc, and of nobody else: `/proc/self` leads to this process, which the program will be.
    landlock.restrict([*rules["read"], "/proc/self"], rules["write"], rules["devices"])
    filter_calls(filter_fd)


def give_up(order: dict[str, Any], staging: bool = True) -> None:
    """Enters the job's resource groups, then takes its user and its limits, and with them no more rights than it has. What is
    staged (`staging`) is seen by this process and its children alone."""
    # The kernel's first victim when memory runs out. Before the uid changes: the file belongs to root afterwards.
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    _join_groups(order["groups"])
    uid = order["uid"]
    if staging and order["staging"]:
        stage(order["staging"], order["covered"])
    if order["scratch"]:
        _scratch(order["scratch"], order["scratch_bytes"], uid)
    if uid is not None:
        if order["landlock"]:
            drop_bounding()
        drop_to(uid)
    _limit(order["rlimits"])
    check(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no-new-privileges")
    os.umask(0o022)


def readable_to_itself() -> None:
    """Undoes what changing users did: the kernel shows a process's own `/proc/self/…` to root alone since."""
    check(libc.prctl(_SET_DUMPABLE, 1, 0, 0, 0), "its own folder of /proc")


def become(order: dict[str, Any], keeper: int) -> stay.Program:
    """Becomes bubblewrap, or the program itself: then it is returned, as what is to be called."""
    os.setsid()
    give_up(order)
    # After the uid change, which clears it. The keeper has one thread, so for once the signal follows the process.
    check(libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0), "the death signal")
    if os.getppid() != keeper:
        os._exit(1)
    if order["landlock"]:
        _confine(order["landlock"], order["filter"])
    if not order["argv"]:
        readable_to_itself()
        return stay.program(order)
    if order["entered"]:  # what holds the namespaces is in sight of the program, and must hold nothing else
        for fd in order["program_fds"]:
            os.close(fd)
    env = {} if order["entered"] else order["env"]
    os.execve(order["argv"][0], order["argv"], env)  # noqa: S606 - the recipe is the parent's own
