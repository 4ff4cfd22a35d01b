"""How a sandboxed process can end before it answered. Every message is a sentence that may be shown to a user."""

from __future__ import annotations

from gpu_runner.hands import HandsError


class SandboxError(HandsError):
    """Base of all. `output` is what the process had printed, capped; untrusted text."""

    def __init__(self, sentence: str, output: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.output = output


class SandboxUnavailable(SandboxError):
    """The boundary itself could not be set up on this machine. The sentence names the cause and the fix."""


class ChildError(SandboxError):
    """The child's handler raised: `type`, `message` and `traceback` are the exception's, untrusted text."""

    def __init__(self, kind: str, message: str, traceback: str, output: str = "") -> None:
        super().__init__(f"{kind}: {message}" if message else kind, output)
        self.type = kind
        self.message = message
        self.traceback = traceback


class ChildCrashed(SandboxError):
    """The process ended without an answer. `signal` is set when one killed it, else `exit_code`. Both are claims."""

    def __init__(self, sentence: str, output: str = "", signal: int | None = None, exit_code: int | None = None) -> None:
        super().__init__(sentence, output)
        self.signal = signal
        self.exit_code = exit_code


class ChildTimedOut(SandboxError):
    """Killed by the wall clock."""


class ChildMemory(SandboxError):
    """Killed at its memory limit."""


class ChildOutputLimit(SandboxError):
    """Killed because it printed more than it may."""


class ChildProtocol(SandboxError):
    """Killed because it sent a message that is not one."""
