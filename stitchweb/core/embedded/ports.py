"""Who listens on a port, told from /proc."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path


def is_free(host: str, port: int) -> bool:
    """Whether the web process could listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def holder(port: int) -> str:
    """ "process 4711 (python manage.py up)", or what can be said when its owner is somebody else."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:  # 0A: listening
                    inodes.add(f"socket:[{fields[9]}]")
    for process in Path("/proc").iterdir() if inodes else ():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if any(str(fd.readlink()) in inodes for fd in (process / "fd").iterdir()):
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                return f"process {process.name} ({words[:120]})"
    return "a process of another user" if inodes else "a process that cannot be seen from here"
