"""The kernel's Landlock, through its three system calls: a process gives up files, TCP and signals to others, for good.

Nothing but `ctypes` is needed. What a kernel offers is told by its ABI number: files from 1 (Linux 5.13), moves between folders
from 2, truncation 3, TCP 4, device controls 5, abstract Unix sockets and signals 6 (Linux 6.12).
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Sequence

SIGNALS_ABI = 6
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on every architecture
_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL_DEVICE = 1 << 6, 1 << 11, 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE  # the rest belongs to folders
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_BIND_AND_CONNECT_TCP, _ABSTRACT_SOCKETS_AND_SIGNALS = 3, 3
_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result


def abi() -> int:
    """What this kernel offers; 0 when it has no Landlock, or has it switched off."""
    try:
        return _call(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    except OSError:
        return 0


def restrict(read: Sequence[str], write: Sequence[str], devices: Sequence[str]) -> None:
    """From here on this process and its children read and run only what is below `read`, change only what is below `write`, and
    use only `devices`. No TCP, no abstract Unix socket of others and no signal to others where the kernel's ABI has them.

    Needs no-new-privileges or the right to administer. Raises OSError; a path that does not exist is one.
    """
    version = abi()
    rights = _FILE_RIGHTS.get(min(version, 5), 0)
    ruleset = _Ruleset(rights, _BIND_AND_CONNECT_TCP, _ABSTRACT_SOCKETS_AND_SIGNALS)
    size = 8 if version < 4 else 16 if version < SIGNALS_ABI else 24
    fd = _call(_CREATE, ctypes.byref(ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0))
    reading = _EXECUTE | _READ_FILE | _READ_DIR
    for paths, wanted in (
        (read, reading),
        (write, rights & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEVICE)),
        (devices, _READ_FILE | _WRITE_FILE | _IOCTL_DEVICE),
    ):
        for path in paths:
            _allow(fd, path, wanted & rights)
    _call(_RESTRICT, ctypes.c_int(fd), ctypes.c_uint32(0))
    os.close(fd)


def _allow(ruleset: int, path: str, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_FILES
        rule = _PathBeneath(rights, place)
        _call(_ADD, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(place)
