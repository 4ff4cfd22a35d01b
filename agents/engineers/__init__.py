"""Who plans, writes and judges: the protocol every engineer follows, and the registry a run picks from by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from agents.llm.doors import Doors, own_door
from agents.state import BlobStore, Candidate, Decision, State, StopCause, Todo, Usage
from gpu_runner.contracts import Analysis, CandidateFiles, ProfileReport, Report, Task


class UnusableAnswer(Exception):
    """An answer that cannot be used. The message is a sentence for the run page; `usage` is what it cost all the same."""

    def __init__(self, sentence: str = "", usage: Usage | None = None) -> None:
        super().__init__(sentence)
        self.usage = usage or Usage()


class BudgetSpent(UnusableAnswer):
    """Nothing was asked, because in the worst case it would have cost more than is left of `cause`'s part of the budget."""

    def __init__(self, sentence: str, cause: StopCause) -> None:
        super().__init__(sentence)
        self.cause = cause


class Hands(Protocol):
    """Does one task now, or raises HandsError. `seconds`: that it was busy with tasks so far, without what it waited for."""

    seconds: float

    def __call__(self, task: Task) -> Report: ...


@dataclass(frozen=True)
class Context:
    """What an engineer sees. `say` streams short text to the live page; `cancelled` is asked between expensive parts; `doors`
    say how a model is reached; `asked` is told of each question to one, as the payload of a `model.asked` event. `hands` are
    for an engineer with tools; `called` is told of each tool, as a `tool.called` event."""

    state: State
    source: str
    analysis: Analysis
    blobs: BlobStore
    reference_profile: ProfileReport | None = None
    say: Callable[[str], None] = lambda text: None
    cancelled: Callable[[], bool] = lambda: False
    doors: Doors = own_door
    asked: Callable[[dict[str, Any]], None] = lambda payload: None
    hands: Hands | None = None
    called: Callable[[dict[str, Any]], None] = lambda payload: None

    def files(self, candidate: Candidate) -> dict[str, str]:
        """The sources of a candidate, path to text."""
        return {path: self.blobs.get(ref).decode() for path, ref in candidate.files.items()}

    def profile(self, candidate: Candidate) -> ProfileReport | None:
        """The profile of a candidate, None where none was made. What it says in short is `candidate.diagnosis`."""
        return ProfileReport.model_validate_json(self.blobs.get(candidate.profile)) if candidate.profile else None


@dataclass(frozen=True)
class PlanAnswer:
    """The to-do list, best first. Ids are given by the reducer's shell when empty."""

    todos: tuple[Todo, ...]
    note: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True)
class CodeAnswer:
    files: CandidateFiles
    title: str
    note: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True)
class DecideAnswer:
    decision: Decision
    usage: Usage = field(default_factory=Usage)


class Engineer(Protocol):
    """Planner, Coder and Verifier in one; a run may take each from another engineer."""

    name: str

    def plan(self, context: Context) -> PlanAnswer: ...

    def code(self, context: Context, todo: Todo, parent: Candidate | None, failed: Candidate | None) -> CodeAnswer:
        """Write a program that does `todo` on top of `parent` (None: the reference). `failed`: the attempt to repair."""

    def decide(self, context: Context, candidate: Candidate) -> DecideAnswer: ...


_READ_NO_TEXT = frozenset({"offline"})


def reads_text(*names: str) -> bool:
    """Whether one of these engineers heeds what people write: hints, and items of their own in the plan."""
    return not _READ_NO_TEXT.issuperset(names)


_REGISTRY: dict[str, Callable[[], Engineer]] = {}


def register(name: str, factory: Callable[[], Engineer]) -> None:
    """Make an engineer known by name. Registering a name twice is an error."""
    if name in _REGISTRY:
        raise ValueError(f"an engineer named {name!r} is already registered")
    _REGISTRY[name] = factory


def known() -> list[str]:
    """The names of all registered engineers, sorted."""
    _register_ours()
    return sorted(_REGISTRY)


def engineer(name: str) -> Engineer:
    """The engineer of that name. Raises ValueError with the known names."""
    _register_ours()
    try:
        return _REGISTRY[name]()
    except KeyError:
        known = ", ".join(sorted(_REGISTRY)) or "none"
        raise ValueError(f"there is no engineer named {name!r}; known: {known}") from None


def _register_ours() -> None:
    """They register themselves, and are imported late because they import this module."""
    import agents.engineers.agentic
    import agents.engineers.demo
    import agents.engineers.llm
    import agents.engineers.offline  # noqa: F401
