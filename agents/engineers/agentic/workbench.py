"""A candidate under way: its files in memory, and what the hands say of them.

Nothing here is a path of this machine: files are texts by name, the reference is a text that can be read, and a program runs
only where the hands run it. Whatever goes wrong is a `Refused` with a sentence for the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from agents.diagnosis import diagnosis_of
from agents.engineers import Context, UnusableAnswer
from agents.engineers.llm import evidence
from agents.engineers.llm.files import MODEL_FILE, allowed, checked, sentence_of
from agents.steps import STEP_LIMITS_S, measuring
from gpu_runner.contracts import (
    BuildReport,
    CandidateFiles,
    CheckReport,
    ProfileReport,
    Source,
    TimingReport,
    Verdict,
)
from gpu_runner.hands import HandsError

R = TypeVar("R", BuildReport, CheckReport, TimingReport, ProfileReport)
REFERENCE = "reference.py"
MOST_SHOWN = 12_000  # characters of one result
MOST_LINES, MOST_HITS = 400, 40
MOST_HANDS = 24  # tasks of the hands in one attempt
LEAST_S = 10.0  # of the run's time or device seconds; with less no task is begun


class Refused(Exception):
    """A tool that could not do what it was asked. The message is a sentence for the model."""


@dataclass(frozen=True)
class Snapshot:
    """Files that were verified; `speed`: over eager, where they were timed."""

    files: dict[str, str]
    speed: float | None = None


class Workbench:
    """`revision` grows with every change, so that what was measured of files that are no more is known as such."""

    def __init__(self, context: Context, files: dict[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        self.context, self.files, self.clock = context, dict(files), clock
        self.base = dict(files)
        self.revision, self.tasks, self.began = 0, 0, clock()
        self.right: list[Snapshot] = []  # that were verified, in order

    @property
    def device_s(self) -> float:
        """Seconds that the hands were busy for it."""
        return self.context.hands.seconds if self.context.hands else 0.0

    # ---- files

    def list_files(self) -> str:
        rows = [f"{path}  {len(text.encode(errors='replace'))} bytes" for path, text in sorted(self.files.items())]
        return "\n".join([f"{REFERENCE}  (to be read, not to be changed)", *rows])

    def read_file(self, path: str, first: int = 1, last: int = 0) -> str:
        lines = self._text(path).splitlines()
        first = max(1, first)
        last = min(len(lines), last or len(lines), first + MOST_LINES - 1)
        shown = "\n".join(f"{n:5}  {lines[n - 1]}" for n in range(first, last + 1))
        more = f"\n… {len(lines) - last} more lines" if last < len(lines) else ""
        return f"{shown}{more}" if shown else f"{path} has {len(lines)} lines."

    def search(self, text: str) -> str:
        if not text.strip():
            raise Refused("There is nothing to search for: give a text.")
        found = [
            f"{path}:{n}: {line.strip()[:200]}"
            for path in (REFERENCE, *sorted(self.files))
            for n, line in enumerate(self._text(path).splitlines(), 1)
            if text in line
        ]
        return "\n".join(found[:MOST_HITS]) or "Found nowhere. It is searched for as it stands, not as a pattern."

    def write_file(self, path: str, text: str) -> str:
        return self._changed(path, text.replace("\r\n", "\n").rstrip() + "\n")

    def edit_file(self, path: str, old: str, new: str) -> str:
        name = self._own(path)
        if name not in self.files:
            raise Refused(f"There is no file {name}; write it whole.")
        times = self.files[name].count(old) if old.strip() else 0
        if times != 1:
            found = f"is there {times} times" if times else "is not there"
            raise Refused(f"The text to replace in {name} {found}; it has to be there exactly once, as it stands in the file.")
        return self._changed(name, self.files[name].replace(old, new, 1))

    def delete_file(self, path: str) -> str:
        name = self._own(path)
        if self.files.pop(name, None) is None:
            raise Refused(f"There is no file {name}.")
        self.revision += 1
        return f"{name} is gone."

    def _changed(self, path: str, text: str) -> str:
        name = self._own(path)
        try:
            _ = CandidateFiles(files={MODEL_FILE: "class ModelNew: ...\n"} | self.files | {name: text}).manifest
        except ValueError as error:
            raise Refused(sentence_of(error)) from error
        if self.files.get(name) != text:
            self.files[name] = text
            self.revision += 1
        return f"{name} has {len(text.splitlines())} lines now."

    def _own(self, path: str) -> str:
        if path.removeprefix("./") == REFERENCE:
            raise Refused(f"{REFERENCE} is what you are measured against; it cannot be changed.")
        try:
            return allowed(path)
        except UnusableAnswer as error:
            raise Refused(str(error)) from error

    def _text(self, path: str) -> str:
        plain = path.removeprefix("./")
        if plain == REFERENCE:
            return self.context.source
        name = self._own(plain)
        if name not in self.files:
            raise Refused(f"There is no file {name}. Those that there are: {', '.join([REFERENCE, *sorted(self.files)])}.")
        return self.files[name]

    # ---- what the hands say

    def build(self) -> str:
        report = self._done(BuildReport, "build")
        if report.ok:
            return "It builds." if report.artifact else "There are no kernels to build."
        errors = "\n".join(report.diagnostics[:20])
        return f"It does not build.\n{errors}\n{evidence.telling_lines(report.log)}"

    def verify(self) -> str:
        report = self._done(CheckReport, "check")
        if report.verdict is Verdict.VERIFIED:
            self.right.append(Snapshot(dict(self.files)))
        return f"{report.verdict}: {evidence.check(report)}"

    def time(self) -> str:
        report = self._done(TimingReport, "time")
        if report.over_eager is not None and self.right and self.right[-1].files == self.files:
            self.right[-1] = Snapshot(dict(self.files), report.over_eager.value)
        return evidence.timing(report)

    def profile(self) -> str:
        report = self._done(ProfileReport, "profile")
        found = diagnosis_of(report)
        return "\n".join(filter(None, (report.finding or report.reason, evidence.diagnosis(found) if found else "")))

    def _left(self) -> float:
        """Seconds that a task may take. Refused when too few are left, or too many tasks were done."""
        budget, used = self.context.state.options.budget, self.context.state.usage
        left = [STEP_LIMITS_S["check"]]
        if budget.wall_s is not None:
            left.append(budget.wall_s - used.wall_s - (self.clock() - self.began))
        if budget.device_s is not None:
            left.append(budget.device_s - used.device_s - self.device_s)
        if min(left) < LEAST_S:
            raise Refused("The run's time for building and measuring is used up. Call finish, or go on without them.")
        if self.tasks >= MOST_HANDS:
            raise Refused(f"{MOST_HANDS} builds and measurements were made in this attempt, which is the most. Call finish.")
        return min(left)

    def _done(self, kind: type[R], work: str) -> R:
        files, state = self._whole(), self.context.state
        source = Source(text=self.context.source, entry=state.entry)
        task = measuring(work, state.options, source, files, min(STEP_LIMITS_S[work], self._left()), brief=True)
        if self.context.hands is None:
            raise Refused(
                "Nothing can be built or measured from here. Hand in with finish: the loop measures what you hand in."
            )
        self.tasks += 1
        try:
            report = self.context.hands(task)
        except HandsError as error:
            raise Refused(f"The machine could not do it: {error}") from error
        if not isinstance(report, kind):
            raise Refused(f"The machine answered with a report of another kind ({report.kind}); try once more.")
        return report

    def _whole(self) -> CandidateFiles:
        try:
            return checked(self.files)
        except UnusableAnswer as error:
            raise Refused(str(error)) from error

    # ---- handing in

    def handed_in(self) -> CandidateFiles:
        """The files as they are. Refused where they are no candidate, or the one that it began with."""
        if self.files == self.base:
            raise Refused("Nothing was changed yet, so there is nothing to hand in.")
        return self._whole()

    def best(self) -> CandidateFiles:
        """What to take where nobody handed in: the fastest that was verified, else the files as they are. Refused as that."""
        other = [one for one in self.right if one.files != self.base]
        if other:
            return checked(max(other, key=lambda one: (one.speed or 0.0, other.index(one))).files)
        return self.handed_in()
