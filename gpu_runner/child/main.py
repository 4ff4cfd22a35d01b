"""The bootstrap of every sandboxed process: take the limits, wait for a role, answer messages until the parent is done.

Run as `main.py CONTROL_FD LIMITS_JSON`. The parent decides everything; this code only has to be in place before
the user's code is.
"""

import ctypes
import gc
import importlib
import importlib.util
import json
import os
import resource
import sys
import traceback
from types import ModuleType

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_TEXT = 16_000  # characters of a traceback that are worth sending


def set_limits(limits: dict[str, int]) -> None:
    """Takes the resource limits, soft and hard. `nproc` must be set in here: outside, all of a user share one."""
    for name, value in limits.items():
        which = getattr(resource, f"RLIMIT_{name.upper()}")
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))


def settle_allocator() -> None:
    """Puts glibc's malloc where its thresholds end up in a long loop: up to 32 MiB from the heap, and none given back.

    Otherwise it is chance, decided by what lies above a block, whether a result's pages are used again or come from the kernel,
    zeroed and one fault each (for 16 MiB more than the work of many a kernel): one program's times then have two modes.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, 32 << 20)  # the most that glibc takes, and the end of its own adapting
        libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


def import_torch() -> None:
    """The second that a job need not wait for. What is imported stays, so the collector would look through it for nothing: a
    twelfth of the time."""
    gc.disable()
    try:
        import torch  # noqa: F401
    finally:
        gc.enable()


def load_role(channel, payload: dict, fds: list[int]) -> ModuleType:
    """Lays out the job's files and imports the module of the role. `fds`: the files, then the memory for long answers."""
    files, answer = fds
    channel.answer_through(answer)
    os.chdir(payload["folder"])
    for entry in payload["files"]:
        folder = os.path.dirname(entry["path"])
        if folder:
            os.makedirs(folder, exist_ok=True)
        with open(entry["path"], "wb") as file:
            file.write(_exactly(files, entry["size"]))
        os.chmod(entry["path"], 0o444)  # against accidents; the folder is the child's own
    os.close(files)
    sys.path.extend(payload["packages"])
    threads = payload["threads"]
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)  # noqa: TID251 - for the libraries and processes started from here on
    if payload["torch"]:
        import_torch()  # so that no handler's first message pays for it
    if "torch" in sys.modules:
        # Also the OpenMP default of this thread, which kernels that use torch's runtime follow.
        sys.modules["torch"].set_num_threads(threads)
    return importlib.import_module(f".{payload['role']}", __package__)


def _exactly(fd: int, size: int) -> bytes:
    chunks = []
    while size:
        chunk = os.read(fd, size)
        if not chunk:
            raise EOFError("the job's files ended early")
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def describe(error: BaseException) -> dict:
    """An exception as an answer, cut to what fits."""
    text = "".join(traceback.format_exception(error))
    return {"type": type(error).__name__, "message": str(error)[:_TEXT], "traceback": text[-_TEXT:]}


def serve(control_fd: int, limits: dict) -> None:
    """Answers messages until the parent closes the channel. One message is one answer."""
    from .channel import Channel

    channel = Channel(control_fd)
    set_limits(limits["rlimits"])
    settle_allocator()
    channel.send("ready", {"pid": os.getpid()})
    module = None

    def emit(payload: dict) -> None:
        channel.send("progress", payload)

    while True:
        try:
            kind, payload, fds = channel.receive()
        except EOFError:
            return
        try:
            if module is None:
                module = load_role(channel, payload, fds)
                answer = {}
            else:
                answer = module.handle(kind, payload, fds, emit)
            channel.send("done", answer)
        except BaseException as error:  # a program may raise SystemExit or KeyboardInterrupt; it is an answer all the same
            sys.stdout.flush()
            channel.send("error", describe(error))


def start(argv: list[str]) -> None:
    """Makes this folder importable as a package under a name that no program uses, without adding a folder to `sys.path`.

    `program ORDER`: instead of answering a parent, be the program that a profiler was started around.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    name = "stitch_child"
    spec = importlib.util.spec_from_file_location(name, os.path.join(here, "__init__.py"), submodule_search_locations=[here])
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    if argv[1] == "program":
        sys.exit(importlib.import_module(f"{name}.profiled").run(argv[2]))
    importlib.import_module(f"{name}.main").serve(int(argv[1]), json.loads(argv[2]))


if __name__ == "__main__":
    start(sys.argv)
