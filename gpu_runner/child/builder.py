"""Runs the compilers that the parent ordered, several at a time, and hands the library back through the parent's memory."""

import concurrent.futures
import glob
import mmap
import os
import re
import site
import subprocess
import sysconfig
from collections.abc import Callable

_LOG_BYTES = 16_000  # of one source; the parent caps the whole
_MAX_KERNELS, _MAX_NAME = 500, 1000
# nvcc makes a function on the host for each kernel; its name holds the kernel's, and its length tells where that ends.
_STUB = re.compile(r"(?<!\d)(\d+)(__device_stub__\w+)")


def handle(kind: str, payload: dict, fds: list[int], emit: Callable[[dict], None]) -> dict:
    """`build`: {"compile": [{"source", "command"}], "link", "libraries", "library", "jobs"}, with the memory for the library.

    Emits {"text"} while it works; answers {"ok": bool, "size": bytes, "kernels": [demangled name, …]}.
    """
    if kind != "build":
        raise ValueError(f"a builder does not know how to {kind}")
    os.makedirs(os.path.dirname(payload["library"]))
    includes, links = _toolkit(payload["libraries"])
    with concurrent.futures.ThreadPoolExecutor(payload["jobs"]) as workers:
        running = [workers.submit(_run, [*step["command"], *includes], step["source"]) for step in payload["compile"]]
        results = []
        for future in concurrent.futures.as_completed(running):
            ok, text = future.result()
            results.append(ok)
            emit({"text": text})
    if not all(results):
        return {"ok": False, "size": 0}
    ok, text = _run([*payload["link"], *links], os.path.basename(payload["library"]))
    emit({"text": text})
    if not ok:
        return {"ok": False, "size": 0}
    size = os.path.getsize(payload["library"])
    room = os.fstat(fds[0]).st_size
    if size > room:
        emit({"text": f"the library has {size} bytes; at most {room} are kept\n"})
        return {"ok": False, "size": 0}
    with open(payload["library"], "rb") as file, mmap.mmap(fds[0], 0) as memory:
        memory[:size] = file.read(size)
    return {"ok": True, "size": size, "kernels": _kernels(payload["library"])}


def _kernels(library: str) -> list[str]:
    """Names of the CUDA kernels that the library registers; none for one of C++ alone."""
    listed = subprocess.run(
        ["nm", "--defined-only", "--no-demangle", library], capture_output=True, text=True, errors="replace", check=False
    )
    found = {name[: int(size)].removeprefix("__device_stub_") for size, name in _STUB.findall(listed.stdout)}
    if not found:
        return []
    names = "\n".join(sorted(found)[:_MAX_KERNELS])
    plain = subprocess.run(["c++filt"], input=names, capture_output=True, text=True, errors="replace", check=False)
    return [name[:_MAX_NAME] for name in (plain.stdout or names).splitlines()]


def _run(command: list[str], name: str) -> tuple[bool, str]:
    """Whether it worked, and a line with its name followed by what it printed, head and tail."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except OSError as error:
        return False, f"{name}: {command[0]} could not be started: {error.strerror}\n"
    output = done.stdout
    if len(output) > _LOG_BYTES:
        half = _LOG_BYTES // 2
        output = output[:half] + f"\n… {len(output) - 2 * half} bytes left out …\n".encode() + output[-half:]
    text = output.decode("utf-8", "replace")
    if text and not text.endswith("\n"):
        text += "\n"
    ending = "" if done.returncode == 0 else f" failed with exit status {done.returncode}"
    return done.returncode == 0, f"{name}{ending}\n{text}"


def _toolkit(libraries: list[str]) -> tuple[list[str], list[str]]:
    """Where CUDA's libraries lie that come with torch as packages, as flags for compiling and linking.

    Linked by their file name with version: at run time the one that torch has loaded answers to that name.
    """
    if not libraries:
        return [], []
    roots = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    includes = sorted(folder for root in roots for folder in glob.glob(f"{root}/nvidia/*/include"))
    links = []
    for library in libraries:
        found = sorted(path for root in roots for path in glob.glob(f"{root}/nvidia/*/lib/lib{library}.so.*"))
        links += [f"-L{os.path.dirname(found[0])}", f"-l:{os.path.basename(found[0])}"] if found else [f"-l{library}"]
    return [f"-I{folder}" for folder in includes], links
