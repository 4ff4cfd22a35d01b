"""What torch.compile leaves on disk for the next one, and how many processes it may start. For compiled references alone."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

# By name: graphs are kept under keys that hold the whole configuration, so no other mode would ever find them.
_OF_ONE_MODE = frozenset({"fxgraph", "aotautograd"})
_CHOICES = ".best_config"  # what was chosen by timing a kernel; `cache`: the same for matrix products
_CHOSEN = "cache"


def folders() -> dict[str, Path]:
    """Where the compiler keeps what can be used again, by the names that they travel under."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return {"inductor": Path(cache_dir()), "triton": Path.home() / ".triton"}


def limit_threads(count: int) -> None:
    """At most `count` processes compile kernels for this one, on cores that nobody else wants."""
    import torch._inductor.config as settings
    from torch._inductor.compile_worker import subproc_pool

    settings.compile_threads = count
    started = subproc_pool.SubprocPool.__init__

    def start(pool: Any, *args: Any, **named: Any) -> None:
        started(pool, *args, **named)
        os.setpriority(os.PRIO_PROCESS, pool.process.pid, 19)  # before it has imported what its workers are forked with

    subproc_pool.SubprocPool.__init__ = start  # type: ignore[method-assign]


def time_nothing() -> None:
    """Kernels that would be chosen by timing are compiled, and the first one is taken: who compiles for others must not use the
    device while those measure."""
    from torch._inductor.runtime.benchmarking import benchmarker

    def same(*args: Any, **named: Any) -> float:
        return 1.0

    for name in ("benchmark", "benchmark_cpu", "benchmark_gpu", "benchmark_gpu_with_cuda_graph"):
        if hasattr(benchmarker, name):
            setattr(benchmarker, name, same)


def pack(fd: int, capacity: int, choices: bool) -> dict[str, Any]:
    """All that is kept, as an archive in the memory `fd` of `capacity` bytes; what does not fit is left out, from the largest
    file on. `choices`: with what was chosen by timing."""
    found = []
    for name, root in folders().items():
        for path in root.rglob("*"):
            inside = path.relative_to(root)
            if path.is_symlink() or not path.is_file() or inside.parts[0] in _OF_ONE_MODE:
                continue
            if not choices and (path.suffix == _CHOICES or inside.parts[0] == _CHOSEN):
                continue
            found.append((path.stat().st_size, f"{name}/{inside}", path))
    found.sort()
    left = capacity - (1 << 20)  # for the end of the archive
    with os.fdopen(os.dup(fd), "wb") as memory, tarfile.open(fileobj=memory, mode="w") as archive:
        for size, name, path in found:
            left -= size + 4096  # its header, and the rest of its last block
            if left < 0:
                break
            archive.add(path, name, recursive=False)
        archive.close()
        return {"bytes": memory.tell()}


def unpack(fd: int, size: int) -> dict[str, Any]:
    """Put an archive of `pack`, `size` bytes of `fd`, where the compiler will look."""
    count = 0
    roots = folders()
    with os.fdopen(os.dup(fd), "rb") as memory:
        memory.seek(0)
        if size == 0:
            return {"files": 0}
        with tarfile.open(fileobj=memory, mode="r:") as archive:
            for member in archive:
                name, _, inside = member.name.partition("/")
                if not member.isfile() or name not in roots:
                    continue
                archive.extract(member.replace(name=inside), roots[name], filter="data")
                count += 1
    return {"files": count}
