"""Candidates checked and timed by the Verifier: several checks at once, each timing alone, identical ones once."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from agents.readings import agrees, facts, speeds, times
from agents.state import Options
from agents.steps import checking, measuring
from agents.training.service.contracts import Item, Terms
from agents.training.service.gate import Gate
from gpu_runner.contracts import (
    AnalyseTask,
    Analysis,
    CandidateFiles,
    CheckReport,
    Contract,
    Limits,
    Source,
    TimingReport,
    Verdict,
    digest,
)
from gpu_runner.hands import Cancelled, Hands, HandsError

log = logging.getLogger(__name__)

KEPT = 100_000  # measurements that are remembered
REFERENCE_S = 300.0  # for the first run of a reference
GRACE_S = 60.0  # that the hands may take beyond a task's own limit, before they count as broken

ENDING = "The reward service is ending."


class NotMeasured(Exception):
    """The machine's trouble, never the candidate's. The message is a sentence."""


class BadReference(NotMeasured):
    """By this reference nothing can be judged. The message is a sentence."""


@dataclass
class _Slot:
    """Hands for one candidate at a time, and the references that they have met."""

    hands: Hands | None = None
    met: set[str] = field(default_factory=set)


class Measured(Contract):
    """What the Verifier found. `speed` fields as in `agents.reward.Inputs`; `facts` and `numbers` as a judge reads them."""

    verdict: str
    hack: str = ""
    sentence: str = ""
    outputs_agree: bool = False
    speed: dict[str, float | None] = {}
    facts: tuple[str, ...] = ()
    numbers: dict[str, float | None] = {}
    protocol: str = ""
    seconds: float = 0.0

    @property
    def word(self) -> str:
        return f"{self.verdict}:{self.hack}" if self.verdict == Verdict.HACK and self.hack else self.verdict


class Measurer:
    """Hands that do several tasks at once. `make` gives new hands: one for each candidate under work, kept between them."""

    def __init__(self, terms: Terms, make: Callable[[], Hands]) -> None:
        self.terms = terms
        self._make = make
        self._gate = Gate()
        self._idle: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
        for _ in range(terms.parallel):
            self._idle.put(_Slot())
        self._unusable: dict[str, str] = {}  # references: why nothing can be judged by them
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Future[Measured]] = OrderedDict()
        self._ended = threading.Event()
        self.measured = 0

    def close(self) -> None:
        """End what is under way and every process of the hands."""
        self._ended.set()
        for _ in range(self.terms.parallel):
            with suppress(queue.Empty):
                _closed(self._idle.get(timeout=10).hands)

    def measure(self, item: Item, files: CandidateFiles) -> tuple[Measured, bool]:
        """The candidate's measurement, and whether it was known. Waits for its turn. NotMeasured says what is broken."""
        key = digest(
            [item.reference, item.entry, files.files, item.target, item.mode, item.precision, item.require_own_kernels]
        )
        with self._lock:
            future = self._known.get(key)
            mine = future is None
            if future is None:
                future = self._known[key] = Future()
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)
            else:
                self._known.move_to_end(key)
        if not mine:
            return future.result(), True
        try:
            found = self._taken(item, files)
        except BaseException as error:
            with self._lock:
                self._known.pop(key, None)  # trouble is no property of the candidate: the next one tries again
            future.set_exception(error)
            raise
        self.measured += 1
        future.set_result(found)
        return found, False

    def _taken(self, item: Item, files: CandidateFiles) -> Measured:
        slot = self._idle.get()
        try:
            if self._ended.is_set():
                raise NotMeasured(ENDING)
            if slot.hands is None:
                slot.hands = self._make()
            return self._measured(slot, slot.hands, item, files)
        except (HandsError, Cancelled) as error:
            late = str(error) or "The runner did not answer in its time; its processes were ended."
            raise NotMeasured(ENDING if self._ended.is_set() else late) from error
        except NotMeasured:
            raise
        except Exception as error:
            log.exception("the hands failed")
            _closed(slot.hands)
            slot = _Slot()
            raise NotMeasured(f"The runner failed: {type(error).__name__}: {error}"[:1000]) from error
        finally:
            self._idle.put(slot)

    def _measured(self, slot: _Slot, hands: Hands, item: Item, files: CandidateFiles) -> Measured:
        terms = self.terms
        began = time.monotonic()
        source = Source(text=item.reference, entry=item.entry)
        options = Options(
            target=item.target, planner="", coder="", verifier="", protocol=terms.measured_by, mode=item.mode,
            precision=item.precision, require_own_kernels=item.require_own_kernels,
        )  # fmt: skip
        self._meet(slot, hands, source, options)
        task = checking(options, source, files, terms.check_s, options.protocol)
        with self._gate.shared(self._ended.is_set):
            check = hands.perform(task, _silent, self._late(terms.check_s))
        if not isinstance(check, CheckReport):
            raise NotMeasured(f"The runner answered a check with a report of kind {check.kind!r}.")
        if check.verdict is Verdict.REFUSED:
            raise BadReference(check.sentence or "The reference cannot be used.")
        timing: TimingReport | None = None
        if check.verdict is Verdict.VERIFIED:
            with self._gate.alone(self._ended.is_set):
                report = hands.perform(
                    measuring("time", options, source, files, terms.time_s, options.protocol), _silent, self._late(terms.time_s)
                )
            if not isinstance(report, TimingReport):
                raise NotMeasured(f"The runner answered a timing with a report of kind {report.kind!r}.")
            if report.verdict is Verdict.REFUSED:
                raise BadReference(report.sentence or "The reference cannot be timed.")
            timing = report
        return _told(check, timing, options.protocol.id, time.monotonic() - began)

    def _meet(self, slot: _Slot, hands: Hands, source: Source, options: Options) -> None:
        """Run the reference once before any candidate of it, in time of its own: what its start costs is no candidate's time.
        BadReference for one by which nothing can be judged."""
        key = digest([source.sha256, options.target, options.mode, options.precision])
        if key not in slot.met and key not in self._unusable:
            limits = Limits.of(options.target, REFERENCE_S)
            task = AnalyseTask(
                target=options.target, limits=limits, source=source, protocol=options.protocol, mode=options.mode,
                precision=options.precision,
            )  # fmt: skip
            with self._gate.shared(self._ended.is_set):
                report = hands.perform(task, _silent, self._late(REFERENCE_S))
            if not isinstance(report, Analysis):
                raise NotMeasured(f"The runner answered an analysis with a report of kind {report.kind!r}.")
            if report.refusal is not None:
                self._unusable[key] = f"The reference cannot be used: {report.refusal.sentence}"
            elif report.nulls:
                self._unusable[key] = (
                    f"The reference is degenerate: a program that does nothing passes ({', '.join(report.nulls)})."
                )
            slot.met.add(key)
        if key in self._unusable:
            raise BadReference(self._unusable[key])

    def _late(self, limit_s: float) -> Callable[[], bool]:
        end = time.monotonic() + limit_s + GRACE_S
        return lambda: self._ended.is_set() or time.monotonic() > end


def _closed(hands: Hands | None) -> None:
    close = getattr(hands, "close", None)
    if close is not None:
        with suppress(Exception):  # what is ended may be broken already
            close()


def _silent(progress: Any) -> None:
    return


def _told(check: CheckReport, timing: TimingReport | None, protocol: str, seconds: float) -> Measured:
    last = timing if timing is not None and timing.verdict is not None else check
    failed = sum(row.passed is False for row in check.rows)
    return Measured(
        verdict=str(last.verdict), hack=str(last.hack or ""), sentence=last.sentence, protocol=protocol,
        outputs_agree=agrees(check.rows, check.verdict is Verdict.VERIFIED),
        facts=tuple(facts(check.rows, timing, check.coverage)), seconds=round(seconds, 3), speed=speeds(timing),
        numbers={
            "error_ratio": check.error_ratio, "signal_error": check.signal_error, "coverage": check.coverage,
            "rows_failed": float(failed), **times(timing),
        },
    )  # fmt: skip
