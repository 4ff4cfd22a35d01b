"""Where untrusted programs run: one single-use process each, without network, files, rights or endless resources.

    with Sandbox.start(SandboxSpec(role="candidate", files={"model_new.py": text})) as sandbox:
        answer = sandbox.request("load", {...}, fds=[memory.fd], timeout=30)

What is in here is trusted and starts no untrusted code in its own process; what runs inside lives in `gpu_runner/child`. Start
nothing through other doors: `Sandbox.start` proves the boundary first and refuses when there is none.
"""

from gpu_runner.sandbox.errors import (
    ChildCrashed,
    ChildError,
    ChildMemory,
    ChildOutputLimit,
    ChildProtocol,
    ChildTimedOut,
    SandboxError,
    SandboxUnavailable,
)
from gpu_runner.sandbox.memory import Memory
from gpu_runner.sandbox.process import Sandbox
from gpu_runner.sandbox.spec import Role, SandboxSpec

__all__ = [
    "ChildCrashed",
    "ChildError",
    "ChildMemory",
    "ChildOutputLimit",
    "ChildProtocol",
    "ChildTimedOut",
    "Memory",
    "Role",
    "Sandbox",
    "SandboxError",
    "SandboxSpec",
    "SandboxUnavailable",
]
