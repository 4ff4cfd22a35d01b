"""The parent's side of the programs' processes, reference and candidate, asked through typed methods (the judge's: `judging`).

The parent draws the seeds, owns the shared memory and keeps the order of things; it imports no torch and runs nothing of the
user's. Every answer is checked before it is used: a process that lies about its results must not be able to mislead the judge.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from gpu_runner import launches
from gpu_runner.contracts import Protocol, Refusal, Source
from gpu_runner.contracts.entry import Entry
from gpu_runner.hands import HandsError
from gpu_runner.job import Job
from gpu_runner.launches import Launches
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
from gpu_runner.tolerances import tolerances
from gpu_runner.turns import compile_threads, make_room
from gpu_runner.values import Call, Forged, ProgramEnded, ProgramRefused, Value, checked_manifest, settled


class Peer:
    """One sandboxed process with a role. Failures come as `ProgramRefused` or `ProgramEnded`, never as raw sandbox errors."""

    def __init__(self, side: str, sandbox: Sandbox, job: Job) -> None:
        self.side, self.sandbox, self.job = side, sandbox, job

    def close(self) -> None:
        self.sandbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def capacity(self) -> int:
        """Bytes of a memory for results: the limit of the process. Untouched pages cost nothing."""
        return self.job.limits.memory_mib << 20

    def ask(self, kind: str, payload: Mapping[str, Any], memories: Sequence[Memory] = (), timeout: float | None = None) -> Any:
        """One request. Raises ProgramRefused when the program failed in it, ProgramEnded when the process is gone."""
        make_room()
        left = self.job.left()
        timeout = left if timeout is None else min(timeout, left)
        try:
            reply = self.sandbox.request(
                kind, dict(payload), [m.fd for m in memories], timeout=timeout, cancelled=self.job.cancelled
            )
        except ChildError as error:
            raise self._broken(error) from error
        except ChildTimedOut as error:
            raise ProgramEnded(
                self.side, "timed_out", f"The {self.side} did not finish in time: {error}", error.output
            ) from error
        except ChildMemory as error:
            raise ProgramEnded(
                self.side, "out_of_memory", f"The {self.side} ran out of memory: {error}", error.output
            ) from error
        except ChildProtocol as error:
            raise Forged(self.side, f"The {self.side}'s process broke the protocol: {error}", error.output) from error
        except (ChildCrashed, ChildOutputLimit) as error:
            raise ProgramEnded(self.side, "crashed", f"The {self.side} crashed: {error}", error.output) from error
        refusal = reply.get("refusal")
        if refusal is not None:
            raise ProgramRefused(self.side, _refusal(self.side, refusal))
        return reply

    def _broken(self, error: ChildError) -> Exception:
        """Our own code in the process raised: with user code beside it, blame lies with the program, else with us."""
        if self.side == "judge":
            return HandsError(f"The judge failed: {error}\n{error.traceback}")
        said = f"{error.type}: {error.message}".rstrip(" :.")
        return ProgramEnded(self.side, "crashed", f"The {self.side}'s process failed: {said}.", error.traceback)

    @contextmanager
    def memory(self) -> Iterator[Memory]:
        """Room for results; given back when something goes wrong."""
        memory = Memory.create(self.capacity())
        try:
            yield memory
        except BaseException:
            memory.close()
            raise

    def values(self, reply: Mapping[str, Any], memory: Memory, *keys: str) -> list[Value]:
        """The values that an answer describes, all in one memory, final from here on. Raises Forged."""
        manifests = [checked_manifest(self.side, reply.get(key), memory.size) for key in keys]
        memory = settled(self.side, memory, max(manifest["bytes"] for manifest in manifests))
        return [Value(manifest, memory) for manifest in manifests]


def _refusal(side: str, data: Any) -> Refusal:
    try:
        line = data["line"]
        return Refusal(
            code=str(data["code"])[:60],
            sentence=str(data["sentence"])[:1000],
            way_out=str(data["way_out"])[:500],
            line=line if isinstance(line, int) and 0 < line < 1_000_000 else None,
            log=str(data["log"])[:8000],
        )
    except (KeyError, TypeError) as error:
        raise Forged(side, f"The {side}'s process sent a refusal that cannot be.") from error


class Program(Peer):
    """What reference, compiled reference and candidate have in common: weights and calls."""

    def prepare(self, inputs: Value, **options: Any) -> None:
        """Make private inputs (see `child.arm.Arm.prepare` for the options)."""
        self.ask("prepare", {"inputs": inputs.manifest, **options}, [inputs.memory])

    def wake(self) -> None:
        """Have the process' threads ready for a call."""
        self.ask("wake", {})

    def go(self, timeout: float | None = None) -> Call:
        """The call itself, on two clocks."""
        start = time.perf_counter_ns()
        reply = self.ask("go", {}, timeout=timeout)
        wall = time.perf_counter_ns() - start
        ns, device = reply.get("ns"), reply.get("device_ns")
        if not _is_time(ns) or not (device is None or _is_time(device)):
            raise Forged(self.side, f"The {self.side}'s process gave a time for a call that cannot be.", code="forged_time")
        return Call(ns=ns, wall_ns=wall, device_ns=device)

    def collect(self, call: Call, watch: bool = False) -> Call:
        """Take the results out, into `call`; `watch` adds the facts that need time. ProgramRefused when they cannot cross."""
        with self.memory() as memory:
            reply = self.ask("collect", {"watch": watch}, [memory])
            if "unsupported" in reply:
                sentence = f"A result is not supported: {str(reply['unsupported'])[:300]}."
                raise ProgramRefused(self.side, Refusal(code="unsupported_outputs", sentence=sentence))
            if "inputs_after" in reply:
                call.output, call.inputs_after = self.values(reply, memory, "output", "inputs_after")
            else:
                [call.output] = self.values(reply, memory, "output")
        facts = reply.get("facts")
        call.facts = facts if isinstance(facts, dict) else {}
        return call

    def call(self, inputs: Value, *, watch: bool = False, timeout: float | None = None, **options: Any) -> Call:
        """Prepare, wake, go, collect."""
        self.prepare(inputs, watch=watch, **options)
        self.wake()
        return self.collect(self.go(timeout), watch)

    def buffers(self) -> Value:
        """The buffers as they are now."""
        with self.memory() as memory:
            return self.values(self.ask("buffers", {}, [memory]), memory, "buffers")[0]


def _is_time(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


@dataclass
class Selections:
    """Results that are indices: (result, dimension, whether several are taken), and what each of them selects from."""

    found: list[tuple[int, int, bool]]
    sources: Value


class ReferencePeer(Program):
    """The user's program. `compile` names a mode of torch.compile: then it is a baseline arm."""

    facts: dict[str, Any]

    @classmethod
    def start(
        cls, job: Job, source: Source, compile: str | None = None, threads: int | None = None, untimed: bool = False
    ) -> ReferencePeer:
        """A process with the user's program loaded in it. Raises ProgramRefused or ProgramEnded for what is wrong with that.

        `untimed`: its compiler only compiles, for others: of kernels that are chosen by timing it takes any.
        """
        peer = cls("reference", start(job, "reference", {"reference.py": source.text}, threads), job)
        try:
            payload = {"entry": source.entry, "device": job.device, "mode": job.mode, "precision": job.precision}
            how = {"compile": compile, "compile_threads": compile_threads(untimed), "untimed": untimed} if compile else {}
            peer.facts = peer.ask("load", payload | how)
            if not isinstance(peer.facts.get("entry"), str):
                raise Forged("reference", "The reference's process described the program in a way that cannot be.")
        except BaseException:
            peer.close()
            raise
        return peer

    def tolerances(self, protocol: Protocol) -> dict[str, float]:
        """The relative tolerance of its results by dtype."""
        return tolerances(protocol, self.job.precision, self.facts.get("tf32") is True)

    def draw(self, seed: int, *, variant: str = "", prints: bool = False, **options: Any) -> tuple[Value, Any] | None:
        """Inputs under a seed, with the whole answer. None when a structured draw has nothing to change.

        `scale` multiplies floating-point content, `jitter` moves it by a rounding, `reuse` takes the draw before instead of a
        new one.
        """
        with self.memory() as memory:
            reply = self.ask("draw", {"seed": seed, "variant": variant, "prints": prints, **options}, [memory])
            if reply.get("unchanged"):
                memory.close()
                return None
            prints = reply.get("prints", [])
            if not (isinstance(prints, list) and all(isinstance(number, int) for number in prints)):
                raise Forged(self.side, "The reference's process described its inputs in a way that cannot be.")
            return self.values(reply, memory, "inputs")[0], reply

    def weights(self, seed: int | None = None, rebuild: int | None = None) -> Value:
        """Set the program's weights (None: as constructed) and export them."""
        with self.memory() as memory:
            reply = self.ask("weights", {"seed": seed, "rebuild": rebuild}, [memory])
            return self.values(reply, memory, "weights")[0]

    def double(self, inputs: Value) -> tuple[Value | None, str, float]:
        """(results in double precision or None, why there are none, seconds it took)."""
        with self.memory() as memory:
            reply = self.ask("double", {"inputs": inputs.manifest}, [inputs.memory, memory])
            if "reason" in reply:
                memory.close()
                return None, str(reply["reason"])[:300], 0.0
            seconds = reply.get("seconds", 0.0)
            if isinstance(seconds, bool) or not isinstance(seconds, int | float):
                raise Forged(self.side, "The reference's process gave no time for its results in double precision.")
            return self.values(reply, memory, "output")[0], "", float(seconds)

    def selections(self, inputs: Value) -> Selections | None:
        """Which results of a forward are indices of a selection, with what was selected from; None where none is."""
        with self.memory() as memory:
            reply = self.ask("selections", {"inputs": inputs.manifest}, [inputs.memory, memory])
            sources = self.values(reply, memory, "sources")[0]
            try:
                found = [(int(i), int(dim), several is True) for i, dim, several in reply["found"]]
            except (KeyError, TypeError, ValueError):
                found = []
        if found and len(found) == len(sources.manifest["leaves"]):
            return Selections(found, sources)
        sources.close()
        return None

    def about(self, kind: str, inputs: Value, **payload: Any) -> Any:
        """One of the analysis' questions: determinism, other_batch, counts, profile, capture."""
        return self.ask(kind, {"inputs": inputs.manifest, **payload}, [inputs.memory])


class CandidatePeer(Program):
    """The generated program. `kernels`: names of those in its library."""

    kernels: tuple[str, ...] = ()

    @classmethod
    def start(cls, job: Job, files: Mapping[str, str | bytes], tool: Tool | None = None) -> CandidatePeer:
        """A process that has the candidate's files (the built library among them) and has run nothing of it yet. `tool`: what
        it runs under."""
        laid_out = {f"candidate/{path}": content for path, content in files.items()}
        return cls("candidate", start(job, "candidate", laid_out, tool=tool), job)

    def load(self, init_inputs: Any, coverage: bool = False, entry: Entry | None = None) -> None:
        """Import `model_new.py` and construct `ModelNew`, or open the library that `entry` describes. `coverage` times the
        candidate's own functions from then on."""
        payload = {
            "init_inputs": init_inputs,
            "device": self.job.device,
            "mode": self.job.mode,
            "precision": self.job.precision,
        }
        self.ask("load", payload | {"coverage": coverage, "entry": entry.order() if entry else None})

    def load_weights(self, weights: Value) -> None:
        """Copy the reference's weights by name. Raises ProgramRefused (code weights_differ) when they do not fit."""
        self.ask("weights", {"weights": weights.manifest}, [weights.memory])

    def mute(self, on: bool) -> None:
        """Make the candidate's own functions do nothing from now on, or work again. Needs `coverage`."""
        self.ask("mute", {"on": on})

    def patches(self) -> dict[str, list[str]]:
        """Names that the program replaced in its process: `ours` of the harness, `others` of torch and the standard library.

        `flushed`: what became of tiny numbers there before its code was loaded and now.
        """
        reply = self.ask("patches", {})
        names = {key: reply.get(key) for key in ("ours", "others", "flushed")}
        if not all(isinstance(found, list) for found in names.values()):
            raise Forged(self.side, "The candidate's process did not say what was replaced in it.")
        return {key: [str(name)[:100] for name in found[:20]] for key, found in names.items() if isinstance(found, list)}

    def coverage(self, inputs: Value, calls: int) -> tuple[int, int, int, bool]:
        """(nanoseconds of some forwards, of them inside the candidate's own functions, number of those calls, whether it has a
        library whose calls cannot be seen)."""
        reply = self.ask("coverage", {"inputs": inputs.manifest, "calls": calls}, [inputs.memory])
        total, own, count = (reply.get(k) for k in ("total_ns", "own_ns", "own_calls"))
        if not (_is_time(total) and _is_time(own) and _is_time(count)):
            raise Forged(self.side, "The candidate's process gave no coverage.")
        return total, own, count, reply.get("unseen") is True

    def launched(self, inputs: Value) -> Launches:
        """What one forward has the device do. Raises Forged."""
        found = launches.parse(self.ask("launched", {"inputs": inputs.manifest}, [inputs.memory]).get("rows"), self.kernels)
        if found is None:
            raise Forged(self.side, "The candidate's process described what it launched in a way that cannot be.")
        return found

    def watched(self, inputs: Value, calls: int, timeout: float) -> None:
        """`calls` forwards on inputs in memory of exactly their size, for a sanitizer to watch."""
        self.ask("watched", {"inputs": inputs.manifest, "calls": calls}, [inputs.memory], timeout=timeout)

    def profile(self, inputs: Value, budget_s: float) -> Any:
        """As many forwards under torch.profiler as fill `budget_s` seconds (see `child.profiling`)."""
        return self.ask("profile", {"inputs": inputs.manifest, "budget_s": budget_s}, [inputs.memory])


def start(
    job: Job, role: Any, files: Mapping[str, str | bytes], threads: int | None = None, tool: Tool | None = None
) -> Sandbox:
    """A sandbox of the job's limits. Raises HandsError when there is no boundary or it dies at once."""
    spec = SandboxSpec(role=role, limits=job.held_limits, files=files, threads=threads, devices=job.devices, tool=tool)
    try:
        return Sandbox.start(spec)
    except SandboxUnavailable:
        raise
    except (ChildError, ChildCrashed, ChildMemory, ChildTimedOut) as error:
        raise HandsError(f"The {role}'s process could not be started: {error}") from error


def seed() -> int:
    """A seed nobody can guess."""
    return int.from_bytes(os.urandom(6), "big")
