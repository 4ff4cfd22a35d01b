"""What a sandboxed process is asked to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

from gpu_runner.contracts import Limits

Role = Literal["reference", "candidate", "judge", "builder", "collector", "reader", "probe"]
ROLES: tuple[Role, ...] = get_args(Role)
# These import torch whatever they do, so they are forked from a process that has it.
TORCH_ROLES: frozenset[Role] = frozenset({"reference", "candidate", "judge"})


@dataclass(frozen=True)
class Tool:
    """A tool of ours that the process runs under, or starts. `prefix`: the command before the interpreter. `environment` is
    added to what the process finds. `folders` are shown read-only where they are. `talks`: its parts speak to each other
    through named pipes and, with namespaces, over a loopback that is the sandbox's own. Such tools reserve more address space
    than any limit on it would leave."""

    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    folders: tuple[Path, ...] = ()
    talks: bool = False


@dataclass(frozen=True)
class SandboxSpec:
    """One process, used for one job.

    `files` are laid out (path to content) in the child's working folder before its role is loaded. `threads`: what torch and
    OpenMP may use, None for the runner's setting. `devices`: device nodes; CUDA needs `/dev/nvidiactl`, `/dev/nvidia-uvm` and
    the job's own `/dev/nvidiaN`, and nothing else.
    """

    role: Role
    limits: Limits = field(default_factory=Limits)
    files: Mapping[str, bytes | str] = field(default_factory=lambda: MappingProxyType({}))
    threads: int | None = None
    devices: tuple[str, ...] = ()
    tool: Tool | None = None

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"there is no role {self.role!r}: use one of {', '.join(ROLES)}")
        for path in self.files:
            if not path or path.startswith("/") or ".." in path.split("/"):
                raise ValueError(f"the file {path!r} is not inside the job's folder")
