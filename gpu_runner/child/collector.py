"""Starts the parent's profilers around one program, inside of the same boundary, and hands over what they leave."""

import contextlib
import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable

_SAID = 64_000  # bytes that are kept of what a tool prints, of its head and of its tail
_held: list[int] = []


def handle(kind: str, payload: dict, fds: list[int], emit: Callable[[dict], None]) -> dict:
    """`place`: {"order"} with descriptors: keeps them, writes the order of `profiled` and answers {"program", "folder"}.
    `run`: {"argv", "seconds", "environment", "into"}: answers {"status", "output", "missing"}. `sizes`: {"names"}: bytes of
    those files that are there. `fetch`: {"name"} with a memory: answers {"size"}.
    """
    if kind == "place":
        return _place(payload["order"], fds)
    if kind == "run":
        return _run(payload)
    if kind == "sizes":
        return {"sizes": {name: os.path.getsize(name) for name in payload["names"] if os.path.isfile(name)}}
    if kind == "fetch":
        return _fetch(payload["name"], fds[0])
    raise ValueError(f"a collector does not know how to {kind}")


def _place(order: dict, fds: list[int]) -> dict:
    _held[:] = fds
    for key, fd in zip(order["memories"], fds, strict=True):
        # By the way over this process: a tool between may close what its program would inherit.
        order[key]["path"] = f"/proc/{os.getpid()}/fd/{fd}"
    folder = os.environ["TMPDIR"]  # noqa: TID251 - the sandbox's own
    path = os.path.join(folder, "order.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(order | {"folder": os.getcwd(), "packages": [p for p in sys.path if p]}, file)
    main = os.path.join(os.path.dirname(os.path.abspath(__file__)), "main.py")
    return {"program": [sys.executable, "-I", "-u", main, "program", path], "folder": folder}


def _run(payload: dict) -> dict:
    """The tool in a process group of its own, which is ended with it. `status` is None where its time ran out."""
    with contextlib.ExitStack() as stack:
        said = stack.enter_context(tempfile.TemporaryFile())
        into = stack.enter_context(open(payload["into"], "wb")) if payload["into"] else said
        environment = {**os.environ, **payload["environment"]}  # noqa: TID251
        try:
            child = subprocess.Popen(
                payload["argv"], stdin=subprocess.DEVNULL, stdout=into, stderr=said, env=environment, start_new_session=True
            )
        except OSError as error:
            return {"status": None, "missing": True, "output": f"{payload['argv'][0]}: {error.strerror}"}
        try:
            status = child.wait(timeout=payload["seconds"])
        except subprocess.TimeoutExpired:
            status = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return {"status": status, "missing": False, "output": _ends(said)}


def _ends(file) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    text = file.read(_SAID)
    if size > 2 * _SAID:
        file.seek(-_SAID, os.SEEK_END)
        text += b"\n...\n"
    return (text + file.read(_SAID)).decode("utf-8", "replace")


def _fetch(name: str, fd: int) -> dict:
    try:
        size, room = os.path.getsize(name), os.fstat(fd).st_size
        if size > room:
            raise ValueError(f"the file has {size} bytes; at most {room} are taken")
        with open(name, "rb") as file, mmap.mmap(fd, 0) as memory:
            memory[:size] = file.read(size)
        return {"size": size}
    finally:
        os.close(fd)
