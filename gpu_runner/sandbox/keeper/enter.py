"""How a process enters the namespaces that bubblewrap has made, and is then what bubblewrap's own program would be.

What bubblewrap starts only holds the namespaces (`HOLDER`); the program is a fork, which has in memory what it would have to
import. Order is meaning here too: mounts and the rest belong to bubblewrap's first user namespace, and its second one, below
which no further ones can be made, is entered last.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from typing import Any

from . import stay
from .become import check, drop_bounding, filter_calls, give_up, libc, readable_to_itself

# The first process of the namespaces. It says what it is told, and ends, and all with it, when nobody can speak to it any more.
# Orphans come to it, and are buried by the kernel where their end is of no interest; no signal from inside reaches it.
HOLDER = ("/bin/sh", "-c", "trap '' CHLD; PATH=/usr/bin:/bin; exec cat")
_OWNER_OF_NAMESPACE = 0xB701  # NS_GET_USERNS
_OTHERS = ("mnt", "pid", "net", "ipc", "uts", "cgroup")
_AMBIENT, _AMBIENT_CLEAR = 47, 4
_CAPABILITIES_VERSION_3 = 0x20080522


def _namespaces(holder: int) -> list[int]:
    """Descriptors of the namespaces of `holder` that are not this process's own, in the order to enter them."""
    found = {}
    for name in (*_OTHERS, "user"):
        if os.readlink(f"/proc/{holder}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}"):
            found[name] = os.open(f"/proc/{holder}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    if not {"mnt", "pid", "user"} <= found.keys():
        raise OSError(0, "bubblewrap made no namespaces of its own")
    outer = fcntl.ioctl(found["mnt"], _OWNER_OF_NAMESPACE)
    inner = found.pop("user")
    same = os.fstat(outer).st_ino == os.fstat(inner).st_ino
    return [outer, *found.values(), *(() if same else (inner,))]


def _no_capabilities() -> None:
    """What entering a user namespace gives: all of them, in there."""
    drop_bounding()
    check(libc.prctl(_AMBIENT, _AMBIENT_CLEAR, 0, 0, 0), "no ambient capabilities")
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3, 0)
    check(libc.capset(header, (ctypes.c_uint32 * 6)()), "no capabilities")


def enter(order: dict[str, Any], holder: int, tell: int) -> stay.Program:
    """Becomes the program of the sandbox that `holder` holds. Its pid is written to `tell`: a fork is what is in the pid
    namespace, and this process ends, so that the keeper, its reaper, gets it as a child."""
    namespaces = _namespaces(holder)
    give_up(order, staging=False)
    for namespace in namespaces:
        check(libc.setns(namespace, 0), "entering a namespace")
    os.chdir("/")
    _no_capabilities()
    pid = os.fork()
    if pid != 0:
        os.write(tell, b"%d" % pid)
        os._exit(0)
    os.setsid()
    readable_to_itself()
    filter_calls(order["filter"])
    return stay.program(order)
