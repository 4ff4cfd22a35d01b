"""The reference under the modes of torch.compile: each in a process of its own, compiled beside each other and from what
another mode has left.

Two pairs of modes differ by CUDA graphs alone, so the second of a pair finds the kernels of the first one on disk, and of what
was chosen by timing also the choice. What is found on disk travels as one archive from a compiled reference to the next one of
the same program and never anywhere else: no process shares a folder with another, so a candidate has nothing to look for, and
eager and the judge, which decide what is right, get nothing. A hostile reference may write into the archive what it likes. It
gains nothing by it: it knows its mode anyway, and could be slow in it by itself.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from gpu_runner import turns
from gpu_runner.contracts import Source
from gpu_runner.job import Job
from gpu_runner.peers import ReferencePeer
from gpu_runner.sandbox import Memory
from gpu_runner.session import Session
from gpu_runner.values import Forged, ProgramEnded, ProgramRefused, closing, settled

NO_GRAPHS = "CUDA graphs, which this mode is about, have no meaning on the CPU"
NOTHING_TO_TUNE = "the same as default: on the CPU this mode tunes matrix products, and the program has none"
NO_GRAPH_MADE = "torch.compile fell back to eager: it made no graph"
COMPILE_SHARE = 0.25  # of the task's time, for one mode: what takes longer is none of the baselines, and the row says so
KEPT_BYTES = 512 << 20  # of what a mode leaves for the next one

TUNED = ("max-autotune-no-cudagraphs", "max-autotune")  # the first chooses by timing on the device, the second takes its choice
PAIRS = (("default", "reduce-overhead"), TUNED)


def said(modes: Sequence[str]) -> str:
    """What is being done, for people."""
    return f"compiling the reference with torch.compile ({', '.join(modes)})"


@dataclass
class Kept:
    """What a mode left on disk, `size` bytes of an archive that is final. Whoever is given one closes it."""

    memory: Memory
    size: int

    def close(self) -> None:
        self.memory.close()


@dataclass
class Compiled:
    """The modes of one reference, once `run` has ended: processes that were called once (the session keeps them), the reasons
    why others have none, and the seconds that each took from its first call to its result."""

    job: Job
    source: Source
    session: Session
    arms: dict[str, ReferencePeer] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    build_s: dict[str, float] = field(default_factory=dict)

    def run(self, modes: Sequence[str]) -> None:
        """Compile. What is wrong with a mode is in `errors`; Cancelled and HandsError are raised once every mode has ended."""
        wanted = [mode for mode in modes if not self._pointless(mode)]
        chains = [chain for pair in PAIRS if (chain := [mode for mode in pair if mode in wanted])]
        chains += [[mode] for mode in wanted if not any(mode in chain for chain in chains)]
        if not chains:
            return
        self.job.stage(said(wanted))
        if turns.compilers() == 1:
            with self._handed_on() as kept:
                for chain in chains:
                    self._chain(chain, kept)
        else:
            with ThreadPoolExecutor(len(chains), "stitchweb-compile") as executor:
                begun = [executor.submit(self._chain_alone, chain) for chain in chains]
            for future in begun:
                future.result()
        self.arms = {mode: self.arms[mode] for mode in wanted if mode in self.arms}

    def _pointless(self, mode: str) -> bool:
        if self.job.device != "cpu":
            return False
        if mode in ("reduce-overhead", "max-autotune"):
            self.errors[mode] = NO_GRAPHS
        elif mode in TUNED:
            try:
                # Floating point operations that torch's counter knows: matrix products and convolutions.
                if not self.session.counts(self.job, self.source).get("flops"):
                    self.errors[mode] = NOTHING_TO_TUNE
            except (ProgramRefused, ProgramEnded) as error:
                self.errors[mode] = error.refusal.sentence
        return mode in self.errors

    @contextlib.contextmanager
    def _handed_on(self) -> Iterator[list[Kept]]:
        kept: list[Kept] = []
        try:
            yield kept
        finally:
            for one in kept:
                one.close()

    def _chain_alone(self, chain: Sequence[str]) -> None:
        with self._handed_on() as kept:
            self._chain(chain, kept)

    def _chain(self, chain: Sequence[str], kept: list[Kept]) -> None:
        """The modes of a chain, each from what was left before; `kept`: by whom, and at last by the last one."""
        tuned = chain[0] in TUNED
        if tuned and self.job.device != "cpu" and not self._prepared(chain, kept):
            return
        for number, mode in enumerate(chain):
            self._mode(mode, kept, timed=tuned and number == 0)

    @contextlib.contextmanager
    def _place(self, timed: bool) -> Iterator[None]:
        """`timed`: kernels are chosen by their times, so nobody computes on the device meanwhile; otherwise the device is only
        wanted for a call at the end. A CPU is wanted all the time. Held for the call that compiles alone: to start a process
        and to draw its inputs takes as long."""
        with contextlib.ExitStack() as stack:
            if timed:
                stack.enter_context(turns.alone(self.job))
            else:
                stack.enter_context(turns.compiler(self.job))
                if self.job.device == "cpu":
                    stack.enter_context(turns.beside(self.job, long=True))
            yield

    def _prepared(self, chain: Sequence[str], kept: list[Kept]) -> bool:
        """Compile the kernels of modes that choose by timing, beside whoever uses the device, in a process that ends with that
        and chooses nothing. To choose, alone, then takes a fraction of the time. Whether that may begin: where compiling took
        all the time that a mode has, nobody shall wait for the rest; other troubles are left to the process that chooses."""
        try:
            peer = ReferencePeer.start(self.job, self.source, compile=chain[0], untimed=True)
            with contextlib.closing(peer):
                self._called(peer, kept)
                self._keep(peer, kept, choices=False)
        except (ProgramRefused, ProgramEnded) as error:
            if error.refusal.code == "timed_out":
                self.errors.update(dict.fromkeys(chain, self._too_long()))
                return False
        return True

    def _mode(self, mode: str, kept: list[Kept], timed: bool) -> None:
        try:
            arm = self.session.reference(self.job, self.source, mode)
            self.build_s[mode] = self._called(arm, kept, timed)
            made = arm.ask("compiled", {})
            if not made.get("graphs"):
                raise _Without(NO_GRAPH_MADE)
            self._keep(arm, kept)
        except (ProgramRefused, ProgramEnded, _Without) as error:
            self.session.forget(self.job, self.source, mode)
            self.errors[mode] = str(error) if isinstance(error, _Without) else self._reason(error)
            return
        self.arms[mode] = arm

    def _called(self, arm: ReferencePeer, kept: list[Kept], timed: bool = False) -> float:
        """Compile, by a call. Seconds that it took."""
        if kept:
            arm.ask("found", {"bytes": kept[-1].size}, [kept[-1].memory])
        drawn = arm.draw(1)
        if drawn is None:
            raise ValueError("a plain draw always gives inputs")
        with closing(drawn[0]), self._place(timed):
            started = time.monotonic()
            arm.call(drawn[0], timeout=self._limit_s).close()
            return time.monotonic() - started

    @property
    def _limit_s(self) -> float:
        return COMPILE_SHARE * self.job.limits.wall_s

    def _too_long(self) -> str:
        return f"torch.compile did not end within {self._limit_s:.0f} s"

    def _reason(self, error: ProgramRefused | ProgramEnded) -> str:
        return self._too_long() if error.refusal.code == "timed_out" else error.refusal.sentence

    def _keep(self, arm: ReferencePeer, kept: list[Kept], choices: bool = True) -> None:
        """What the process has on disk by now takes the place of what was kept before."""
        memory = Memory.create(KEPT_BYTES)
        try:
            size = arm.ask("left", {"capacity": memory.size, "choices": choices}, [memory]).get("bytes")
            if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= memory.size:
                raise Forged(arm.side, "The reference's process left something for the next one whose size cannot be.")
            memory = settled(arm.side, memory, size)
        except BaseException:
            memory.close()
            raise
        kept.append(Kept(memory, size))
        for old in kept[:-1]:
            old.close()
        del kept[:-1]


class _Without(Exception):
    """A mode that gave no process to be timed. The message says why."""
