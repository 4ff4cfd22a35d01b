"""Reads reports behind the sandbox, as programs run: what takes a parser over finds no file, no network and no secret."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpu_runner.config import config
from gpu_runner.contracts import Limits
from gpu_runner.profile import limits
from gpu_runner.profile.limits import UnreadableProfile
from gpu_runner.profile.reading import sniff
from gpu_runner.profile.system import SCHEMA
from gpu_runner.sandbox import (
    ChildCrashed,
    ChildError,
    ChildMemory,
    ChildOutputLimit,
    ChildProtocol,
    ChildTimedOut,
    Memory,
    Sandbox,
    SandboxSpec,
    SandboxUnavailable,
)
from gpu_runner.sandbox.spec import Tool

WALL_S = 50.0
MEMORY_BYTES = 2 << 30  # of address space
_PACKAGE = Path(__file__).resolve().parents[1]
_MIB = 1 << 20
_CHUNK = 8 << 20


def read_sandboxed(
    paths: Sequence[Path],
    *,
    role: str = "reference",
    range_name: str = "",
    warmup: int = 0,
    wall_s: float = WALL_S,
    memory_bytes: int = MEMORY_BYTES,
) -> dict[str, Any]:
    """As `reading.read_profile`, in a process of its own. Of the summary no more is known than that it is a mapping of its
    schema: a reader that was taken over may have written it.

    Raises UnreadableProfile, and SandboxUnavailable where this machine has no sandbox or SANDBOX=unsafe says to do without.
    """
    if config().sandbox == "unsafe":
        raise SandboxUnavailable("SANDBOX=unsafe is set, so that there is no sandbox.")
    with contextlib.ExitStack() as stack:
        try:
            files = [stack.enter_context(_held(path)) for path in paths]
            size = sum(file.size for file in files)
            spec = SandboxSpec(
                role="reader",
                limits=Limits(
                    wall_s=wall_s, memory_mib=(MEMORY_BYTES + 2 * size) // _MIB, processes=16, tmp_mib=size // _MIB + 16
                ),
                threads=1,
                tool=Tool(folders=(_PACKAGE,)),
            )
            sandbox = stack.enter_context(Sandbox.start(spec))
            order = {
                "package": str(_PACKAGE), "memory": memory_bytes,
                "role": role, "range_name": range_name, "warmup": warmup,
                "files": [{"suffix": path.suffix, "size": file.size} for path, file in zip(paths, files, strict=True)],
            }  # fmt: skip
            answer = sandbox.request("read", order, [file.fd for file in files])
        except ChildTimedOut:
            raise UnreadableProfile(limits.TOO_SLOW) from None
        except ChildMemory:
            raise UnreadableProfile(limits.TOO_LARGE) from None
        except ChildError as error:
            raise UnreadableProfile(limits.TOO_LARGE if error.type == "MemoryError" else limits.BROKEN) from error
        except (ChildCrashed, ChildOutputLimit, ChildProtocol) as error:
            raise UnreadableProfile(limits.BROKEN) from error
    if isinstance(answer.get("unreadable"), str):
        raise UnreadableProfile(answer["unreadable"])
    summary = answer.get("summary")
    if not isinstance(summary, dict) or summary.get("schema") != SCHEMA:
        raise UnreadableProfile(limits.BROKEN)
    return summary


def _held(path: Path) -> Memory:
    """The file's bytes, final and no file any more. What is no report by its first bytes is refused before it is copied."""
    sniff(path)
    with path.open("rb") as file:
        memory = Memory.create(path.stat().st_size, "stitchweb-report")
        try:
            at = 0
            while chunk := file.read(_CHUNK):
                memory.write(chunk, at)
                at += len(chunk)
            if at != memory.size or not memory.seal():
                raise UnreadableProfile("The file changed while it was read.")
        except BaseException:
            memory.close()
            raise
    return memory
