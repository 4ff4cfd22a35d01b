"""What makes a proposal no task, each cause with its own word: likeness first, which costs nothing, then what it does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from agents.likeness import candidate_norm_sha256, jaccard, shingles
from gpu_runner.contracts import PROTOCOLS, AnalyseTask, Analysis, Label, Limits, Source, Task, TimeTask, TimingReport
from gpu_runner.hands import Hands, HandsError

LIKE = 0.8  # Jaccard index of token 5-grams from which two references are near duplicates, as in releases
T = TypeVar("T", Analysis, TimingReport)
_NUMBER = re.compile(r"(?<![\w.])\d[\d.]*(?:e-?\d+)?\b")
ANALYSE_S, TIME_S = 120.0, 300.0


class NotTold(HandsError):
    """The hands answered with another report than asked for."""


@dataclass(frozen=True)
class Found:
    """What came of a proposal. `cause`: why it is no task, empty for one; `detail`: a sentence; times in milliseconds."""

    cause: str = ""
    detail: str = ""
    eager_ms: float | None = None
    compile_ms: float | None = None


@dataclass
class Likeness:
    """Programs that nothing new may be near to: held-out ones by name, and the tasks taken so far."""

    grams: dict[str, frozenset[int]] = field(default_factory=dict)
    norms: dict[str, str] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)

    def add(self, name: str, text: str, *, own: bool = False) -> None:
        self.grams[name] = shingles(text)
        self.norms.setdefault(_norm(text), name)
        if own:
            self.own.add(name)

    def near(self, text: str) -> Found:
        """Cause and the program that it is near to; nothing where it is near to none."""
        name, like = self.norms.get(_norm(text)), 1.0
        if name is None:
            mine = shingles(text)
            sized = (  # what differs more in length cannot be that near
                (other, grams) for other, grams in self.grams.items()
                if min(len(mine), len(grams)) >= LIKE * max(len(mine), len(grams))
            )  # fmt: skip
            likes = ((jaccard(mine, grams), other) for other, grams in sized)
            like, name = max(likes, default=(0.0, ""))
            if like < LIKE:
                return Found()
        cause = "near another task" if name in self.own else "near a held-out program"
        return Found(cause, f"It is near {name}: Jaccard index {like:.2f} of token 5-grams.")


def _norm(text: str) -> str:
    """A digest that neither names nor comments nor numbers change: programs of one form are one task at several sizes."""
    return candidate_norm_sha256({"reference.py": _NUMBER.sub("0", text)})


def held_out(places: Iterable[Path]) -> dict[str, str]:
    """Texts by name: Python files of folders, and the references of exported rows (`.jsonl` with `reference_code`). OSError."""
    found: dict[str, str] = {}
    for place in places:
        files = sorted(place.rglob("*.py")) + sorted(place.rglob("*.jsonl")) if place.is_dir() else [place]
        for file in files:
            text = file.read_text(encoding="utf-8")
            if file.suffix == ".py":
                found[str(file)] = text
                continue
            for number, line in enumerate(text.splitlines(), 1):
                row = json.loads(line) if line.strip() else {}
                if isinstance(row, dict) and row.get("reference_code"):
                    found[f"{file}:{number}"] = str(row["reference_code"])
    return found


def measured(hands: Hands, text: str, target: str, least_ms: float, most_ms: float) -> Found:
    """What running it in the sandbox shows. HandsError where the machine cannot run it."""
    analysis = _told(hands, AnalyseTask(
        target=target, limits=Limits.of(target, ANALYSE_S), source=Source(text=text), protocol=PROTOCOLS["quick"],
    ), Analysis)  # fmt: skip
    if analysis.refusal is not None:
        return Found(f"refused: {analysis.refusal.code}", analysis.refusal.sentence)
    if not analysis.deterministic or Label.STOCHASTIC in analysis.labels:
        return Found("not deterministic", "Two runs on the same inputs differ.")
    if analysis.inputs_constant or Label.INPUTS_CONSTANT in analysis.labels:
        return Found("constant inputs", "get_inputs() returns the same each time.")
    if analysis.nulls:
        constant = {"zeros", "constant"} & set(analysis.nulls)
        word = "constant output" if constant else "degenerate"
        return Found(word, f"A program that does nothing passes: {', '.join(analysis.nulls)}.")
    rough = analysis.eager_ms
    if rough is not None and not least_ms / 3 <= rough <= most_ms * 3:  # far off: compiling it would be for nothing
        return Found("too fast" if rough < least_ms else "too slow", f"One call takes {rough:.3g} ms.", rough)
    protocol = PROTOCOLS["quick"].model_copy(update={"name": "quick-compile", "arms": ("eager", "default")})
    timing = _told(hands, TimeTask(
        target=target, limits=Limits.of(target, TIME_S), source=Source(text=text), candidate=None, protocol=protocol,
    ), TimingReport)  # fmt: skip
    return _of_times({arm.arm: arm.median_ms for arm in timing.arms}, timing.errors, least_ms, most_ms)


def _of_times(ms: Mapping[str, float], errors: Mapping[str, str], least_ms: float, most_ms: float) -> Found:
    eager, compiled = ms.get("eager"), ms.get("default")
    if eager is None:
        return Found("does not run in eager", errors.get("eager", "It was not timed."))
    if compiled is None:
        return Found("does not run under torch.compile", errors.get("default", "It was not timed."), eager)
    if not least_ms <= eager <= most_ms:
        return Found("too fast" if eager < least_ms else "too slow", f"One call takes {eager:.3g} ms.", eager, compiled)
    return Found(eager_ms=eager, compile_ms=compiled)


def _told(hands: Hands, task: Task, kind: type[T]) -> T:
    report = hands.perform(task)
    if not isinstance(report, kind):
        raise NotTold(f"The hands answered a task of kind {task.kind!r} with a report of kind {report.kind!r}.")
    return report
