"""The profilers of a user's program: each in a sandbox of its own with a limit of time, degrading in steps that are said.

torch.profiler runs inside the program's process, nsys and ncu around a process of it; all of them behind the boundary, for
what they start is the user's. What they leave is an untrusted file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from gpu_runner import turns
from gpu_runner.config import config
from gpu_runner.contracts import Progress
from gpu_runner.peers import Peer, start
from gpu_runner.profile import installed, ncu, nsys
from gpu_runner.profile.counters import counters
from gpu_runner.profile.installed import Installed
from gpu_runner.profile.limits import Meter, UnreadableProfile
from gpu_runner.profile.names import key
from gpu_runner.profile.recording import Ran, record_ncu, record_nsys
from gpu_runner.profile.subject import Subject
from gpu_runner.profile.tools import Outcome, ToolCommand
from gpu_runner.profile.trace import Trace
from gpu_runner.sandbox import Memory, SandboxUnavailable
from gpu_runner.sandbox.spec import Tool
from gpu_runner.values import ProgramEnded, ProgramRefused

TOOLS = {"torch_profiler": "torch.profiler", "nsys": "Nsight Systems", "ncu": "Nsight Compute"}
LEAST_S = 15.0  # of the task's time: with less no further tool is begun
REPORT_BYTES = 256 << 20  # of a file that a tool left; untouched pages cost nothing
_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


@dataclass
class Collected:
    """What one tool came to: a step of the profile, as the summary's `collectors` say it."""

    tool: str
    outcome: Outcome
    seconds: float = 0.0

    def said(self) -> dict[str, Any]:
        """As the summary holds it. `status`: measured or unavailable; `reason` a word, `sentence` for people."""
        o = self.outcome
        return {
            "tool": self.tool, "status": o.status, "reason": o.reason, "sentence": o.sentence, "seconds": round(self.seconds, 3)
        }  # fmt: skip


@dataclass
class Collectors:
    """Runs the tools one after the other and remembers what each came to."""

    subject: Subject
    done: list[Collected] = field(default_factory=list)

    def torch(self) -> dict[str, Any]:
        """The answer of `child.profiling`. Raises what the program does wrong: without it there is no profile at all."""
        with self._step("torch_profiler") as step:
            answer = self.subject.under_torch()
            step.outcome = Outcome("measured")
        return answer

    def nsys(self, iterations: int) -> Trace | None:
        """The program's report of Nsight Systems, None where there is none."""
        with self._step("nsys") as step:
            found: Trace | None = None
            if (tool := self._tool(step, installed.nsys)) is not None:
                with SandboxedPlace.open(self.subject, tool, iterations) as place, TemporaryDirectory() as here:
                    with turns.alone(self.subject.job):
                        left, step.outcome = record_nsys(tool.path, place.folder / "nsys", place.program, place)
                    if left is not None:
                        found = _checked(step, lambda path: nsys.read_nsys(path, Meter()), place.fetched(left, Path(here)))
        return found

    def ncu(self, kernels: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Counters of these kernels (full names) by full name, as far as they could be read."""
        found: dict[str, dict[str, Any]] = {}
        for name in kernels:
            with self._step("ncu") as step:
                if (tool := self._tool(step, installed.ncu)) is not None:
                    found |= self._counters(step, tool, name)
            if step.outcome.reason in ("not_installed", "no_permission", "no_library", "no_time"):
                break  # what the next kernel would meet as well
        return found

    def _counters(self, step: Collected, tool: Installed, name: str) -> dict[str, dict[str, Any]]:
        with SandboxedPlace.open(self.subject, tool, 1) as place, TemporaryDirectory() as here:
            with turns.alone(self.subject.job):
                left, step.outcome = record_ncu(tool.path, place.folder / "ncu", place.program, key(name), place)
            pages = [place.fetched(path, Path(here)) for path in left]

            def read(paths: list[Path]) -> dict[str, dict[str, Any]]:
                return counters(ncu.merge(ncu.read_ncu(path, Meter()) for path in paths))

            return (_checked(step, read, pages) if pages else None) or {}

    def _tool(self, step: Collected, look: Callable[[], Installed | None]) -> Installed | None:
        name = TOOLS[step.tool]
        if self.subject.job.left() < LEAST_S:
            step.outcome = Outcome("unavailable", "no_time", f"{name} was not begun: the profile's time was used up before.")
            return None
        tool = look()
        if tool is None:
            step.outcome = Outcome("unavailable", "not_installed", f"{name} was not found: install it, or put it on the PATH.")
        return tool

    @contextmanager
    def _step(self, tool: str) -> Iterator[Collected]:
        job, began = self.subject.job, time.monotonic()
        step = Collected(tool, Outcome("unavailable", "failed", f"{TOOLS[tool]} did not come to an end."))
        job.stage(f"profiling with {TOOLS[tool]}")
        try:
            yield step
        except (ProgramRefused, ProgramEnded) as error:
            step.outcome = Outcome("unavailable", "program_failed", f"Under {TOOLS[tool]}: {error.refusal.sentence}")
            if tool == "torch_profiler":
                raise
        except SandboxUnavailable as error:
            step.outcome = Outcome("unavailable", "no_sandbox", f"{TOOLS[tool]} does not start in the sandbox: {error}")
            if tool == "torch_profiler":
                raise
        finally:
            step.seconds = time.monotonic() - began
            self.done.append(step)
            said = step.outcome.sentence or f"measured in {step.seconds:.1f} s"
            job.progress(Progress(kind="log", payload={"stream": "profile", "text": f"{TOOLS[tool]}: {said}\n"}))


def _checked(step: Collected, read: Callable[[_Given], _Found], given: _Given) -> _Found | None:
    """What a reader makes of a tool's files; a report that cannot be read is the step's outcome."""
    try:
        return read(given)
    except UnreadableProfile as error:
        step.outcome = Outcome("unavailable", "unreadable", f"The report of {TOOLS[step.tool]} cannot be read: {error}")
        return None


class SandboxedPlace(Peer):
    """A sandbox in which a tool runs around a program; see `recording.Place`. `program` is the program's command there."""

    program: tuple[str, ...]
    folder: Path

    @classmethod
    @contextmanager
    def open(cls, subject: Subject, tool: Installed, iterations: int) -> Iterator[SandboxedPlace]:
        """A fresh sandbox with the program's files in it, in which nothing of it has run yet."""
        job = subject.job
        sandbox = start(job, "collector", subject.files, tool=Tool(folders=tool.folders, talks=True))
        with cls(subject.role, sandbox, job) as place:
            order = subject.order(iterations) | {"threads": config().threads}
            answer = place.ask("place", {"order": order}, subject.memories())
            place.program, place.folder = tuple(map(str, answer["program"])), Path(str(answer["folder"]))
            yield place

    def run(self, command: ToolCommand) -> Ran:
        """See `recording.Place`. A tool gets what is left of the task's time at most."""
        command = replace(command, seconds=max(1.0, min(command.seconds, self.job.left() - LEAST_S / 3)))
        answer: Mapping[str, Any] = self.ask(
            "run",
            {
                "argv": command.argv,
                "seconds": command.seconds,
                "environment": dict(command.environment),
                "into": str(command.leaves) if command.prints else "",
            },
        )
        status = answer.get("status")
        return Ran(status if isinstance(status, int) else None, str(answer.get("output", "")), answer.get("missing") is True)

    def sizes(self, paths: Iterable[Path]) -> dict[Path, int]:
        """See `recording.Place`."""
        names = {str(path): path for path in paths}
        answer = self.ask("sizes", {"names": list(names)}).get("sizes")
        found = answer if isinstance(answer, dict) else {}
        return {names[name]: size for name, size in found.items() if name in names and isinstance(size, int)}

    def fetched(self, path: Path, into: Path) -> Path:
        """A copy of a file in a folder of this machine."""
        with Memory.create(REPORT_BYTES, "stitchweb-report") as memory:
            size = self.ask("fetch", {"name": str(path)}, [memory]).get("size")
            if not isinstance(size, int) or not 0 <= size <= REPORT_BYTES:
                raise ProgramEnded(self.side, "crashed", "The collector answered with a report of an impossible size.")
            here = into / path.name
            here.write_bytes(memory.read(size))
            return here
