"""Becomes bubblewrap, after doing what bubblewrap cannot: started as `python -I -S launcher.py CONFIG_FD`, trusted, alone in
its process, with an empty environment. As root it gives that up first: nothing of the user's may ever descend from root, since
root outside stays root to the files of `/proc/sys`, whatever namespace it sits in.

The configuration is JSON: `parent` (pid), `uid` (null: keep), `groups` (cgroup.procs files to join), `staging` (host path,
place below `/tmp`), `argv` (bubblewrap's).
"""

import ctypes
import json
import os
import signal
import sys

_libc = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNTS, _BIND, _RECURSIVE, _PRIVATE, _NOSUID_NODEV = 0x00020000, 4096, 16384, 1 << 18, 2 | 4
_SET_DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 1, 38


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    arguments = [text.encode() if text is not None else None for text in (source, target, kind)]
    _check(_libc.mount(*arguments, ctypes.c_ulong(flags), data.encode() if data else None), f"mounting {target}")


def stage(places: list[list[str]]) -> None:
    """Shows each host path at a place below a private `/tmp`, where the unprivileged user can reach it.

    An interpreter below a home folder of mode 700 cannot be bound otherwise: bubblewrap resolves paths as the user it runs as.
    """
    _check(_libc.unshare(_NEW_MOUNTS), "a private mount namespace")
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)
    # Opened before /tmp is covered: a source may lie below it.
    sources = [os.open(source, os.O_PATH) for source, _ in places]
    _mount("tmpfs", "/tmp", "tmpfs", _NOSUID_NODEV, "size=1m,mode=755")  # noqa: S108 - private to this process
    for fd, (source, place) in zip(sources, places, strict=True):
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            os.mkdir(place, 0o755)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
        try:
            _mount(f"/proc/self/fd/{fd}", place, None, _BIND | _RECURSIVE)
        except OSError as error:
            raise OSError(error.errno, f"showing {source}: {error.strerror}") from None
        os.close(fd)


def join_groups(files: list[str]) -> None:
    """Enters the job's resource groups; everything started from here on is counted there."""
    for path in files:
        with open(path, "w") as file:
            file.write("0")


def drop_to(uid: int) -> None:
    """Becomes `uid` for good, with no groups."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def main() -> None:
    with os.fdopen(int(sys.argv[1]), "rb") as file:
        config = json.load(file)
    # The kernel's first victim when memory runs out. Before the uid changes: the file belongs to root afterwards.
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    join_groups(config["groups"])
    if config["staging"]:
        stage(config["staging"])
    if config["uid"] is not None:
        drop_to(config["uid"])
    _check(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no-new-privileges")
    # After the uid change, which clears it. It follows the thread that started us, not the process.
    _check(_libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0), "the death signal")
    if os.getppid() != config["parent"]:
        sys.exit("the parent is gone")
    os.umask(0o022)
    os.execve(config["argv"][0], config["argv"], {})  # noqa: S606 - the recipe is the parent's own


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.exit(f"stitchweb-launcher: {where}{error.strerror or error}")
