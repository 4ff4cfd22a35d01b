"""The words of a run's history: the kinds of event, what each carries, and the view they fold into."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

from agents.state import Plan, Status, Todo, Usage
from gpu_runner.contracts import BlobRef, CheckRow, Contract, Label, Refusal, Replay, TimingReport, digest

EventKind = Literal[
    "run.created",  # RunHeader
    "run.status",  # StatusLine
    "analysis.done",  # AnalysisView
    "plan.made",  # Plan (all todos)
    "todo.changed",  # Todo
    "candidate.changed",  # CandidateView
    "check.row",  # {"candidate": id, "row": CheckRow}
    "timing.round",  # {"candidate": id | None, "arm": str, "round": int, "rounds": int, "median_ms": float | None}
    "profile.done",  # ProfileView
    "reference.timed",  # TimingReport of the baseline arms alone
    "decision.made",  # Decision
    "best.changed",  # {"candidate": id | None}
    "control.changed",  # ControlView
    "usage.changed",  # UsageView
    "model.asked",  # one question to a model: role, model, tokens_in, tokens_out, money, price_known, counted, seconds, finish,
    # tries, error, pages of the handbook that went with it, blob: where question and answer lie
    "tool.called",  # one call by an engineer with tools: role, turn, tool, arguments (a beginning), useful, sentence, seconds
    "replay.changed",  # ReplayView
    "log.lines",  # {"stream": str, "text": str}; coalesced, at most 10 a second per stream
    "run.finished",  # ResultView
]


MAX_PAYLOAD = 8000  # bytes of JSON
LOG_KEPT = 16_000  # characters of a stream that the view keeps


class Event(Contract):
    """`seq` is gap-free per run from 1; `at` is seconds since the epoch. `who`: engineer, runner, system or a person's name."""

    seq: int
    kind: EventKind
    at: float
    who: str = "system"
    payload: dict[str, Any]


class RunHeader(Contract):
    run: str
    name: str
    target: str
    protocol: str
    mode: str
    precision: str
    require_own_kernels: bool = False
    width: int = 1  # programs at once
    beam: int = 1  # of the best that they start from
    engineers: dict[str, str]  # role: name
    models: dict[str, str] = {}  # role: the model that it asks
    budget: dict[str, Any]
    source: BlobRef
    synthetic: bool = False  # made by seed_demo


class LaneLine(Contract):
    """What one lane of a round does. `status`: as of a run; `candidate` None while its program is written."""

    number: int
    status: Status
    doing: str
    candidate: str | None = None


class StatusLine(Contract):
    """`doing` is a sentence: "Timing c3"; in a round, of all its lanes. `waiting` says why nothing moves: the
    queue position, paused by …"""

    status: Status
    doing: str = ""
    waiting: str = ""
    step: int = 0
    candidate: str | None = None
    stop_cause: str | None = None
    error: str = ""
    round: int = 0  # under way; 0: none is
    lanes: tuple[LaneLine, ...] = ()  # of it, those that are not over


class AnalysisView(Contract):
    """What the page shows of the analysis; the graph stays in the blob."""

    blob: BlobRef
    refusal: Refusal | None = None
    entry: str = ""
    inputs: tuple[str, ...] = ()  # "float32 [64, 1024]"
    outputs: tuple[str, ...] = ()
    parameters: int = 0
    ops: tuple[dict[str, Any], ...] = ()  # the dozen largest: op, count, time_ns, share
    flops: int = 0
    bytes: int = 0
    eager_ms: float | None = None
    deterministic: bool = True
    nulls: tuple[str, ...] = ()
    labels: tuple[Label, ...] = ()
    warnings: tuple[str, ...] = ()
    device: dict[str, Any] = {}


class CandidateView(Contract):
    """One row of the tree and all its panels need, by reference where big."""

    id: str
    parent: str | None
    todo: str | None
    title: str
    round: int = 0  # that it was written in; 0: in none
    author: str = "engineer"
    skill: str = "from_scratch"
    files: dict[str, BlobRef]
    status: str
    verdict: str | None = None  # "verified", "hack:output_cache", …
    sentence: str = ""
    labels: tuple[Label, ...] = ()
    build: dict[str, Any] | None = None  # ok, seconds, cached, size, diagnostics, log: BlobRef
    check: dict[str, Any] | None = None  # passed, failed, not_run, error_ratio, signal_error, coverage, hack, suspects
    rows: tuple[CheckRow, ...] = ()
    timing: TimingReport | None = None
    confirmed: TimingReport | None = None
    profile: BlobRef | None = None
    finding: str = ""
    note: str = ""


class ProfileView(Contract):
    role: Literal["reference", "candidate"]
    candidate: str | None
    blob: BlobRef
    status: str
    reason: str = ""
    finding: str = ""
    coverage: float | None = None
    klass: str = ""  # of its verdict
    confidence: str = ""
    reached: float | None = None  # the least time that this device needs over the program's own, 0..1
    collectors: tuple[dict[str, Any], ...] = ()  # each tool: tool, status, reason, sentence, seconds
    cached: bool = False  # measured before, for the same program, device and versions


class ControlView(Contract):
    id: str
    kind: str
    state: Literal["requested", "applied", "refused"]
    by: str = ""
    text: str = ""


class UsageView(Contract):
    usage: Usage
    budget: dict[str, Any]


class AskedView(Contract):
    """What a role's questions to its model came to so far. `money`: dollars, of those questions whose price is known; `pages`:
    of the handbook, by name, that went with any of them."""

    model: str
    questions: int = 0
    failed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    money: float = 0.0
    price_known: bool = True
    seconds: float = 0.0
    pages: tuple[str, ...] = ()
    tools: dict[str, int] = {}  # that it called, by name, and how often


class ReplayView(Contract):
    """A draw of a candidate's check that somebody had made again, beside the run and not a part of it.

    `row` is the `replay_key` of the recorded row; `seen` is that row as the replay found it, None where it came to nothing, and
    then `sentence` says why.
    """

    id: str
    candidate: str
    row: str
    name: str
    state: Literal["asked", "working", "done", "failed", "cancelled"]
    by: str = ""
    doing: str = ""
    waiting: str = ""
    seen: CheckRow | None = None
    sentence: str = ""
    device: str = ""

    @property
    def open(self) -> bool:
        return self.state in ("asked", "working")


@lru_cache(maxsize=4096)  # asked for every row of every candidate whenever a page is brought up to date
def replay_key(replay: Replay) -> str:
    """What a recorded draw is called in addresses and events: another seed, memory or place is another key."""
    return digest(replay)[:12]


class ResultView(Contract):
    """How the run ended. `verdict`: verified | no-gain | refused | failed | cancelled; `sentence` says it to a person."""

    verdict: str
    stop_cause: str | None
    sentence: str
    best: str | None = None
    speedup_vs_eager: float | None = None
    speedup_vs_compile: float | None = None
    result: dict[str, Any] | None = None  # the headless line


class View(Contract):
    """The fold. `rows` grow while a check runs and are replaced by the candidate's own when it is done."""

    seq: int = 0
    started_at: float | None = None
    changed_at: float | None = None
    header: RunHeader | None = None
    status: StatusLine = StatusLine(status=Status.QUEUED)
    status_since: float | None = None
    working_since: float | None = None  # when the step under way was taken up; None while nobody works on one
    analysis: AnalysisView | None = None
    plan: Plan | None = None
    plan_count: int = 0
    candidates: dict[str, CandidateView] = {}  # in order of birth
    live_rows: dict[str, tuple[CheckRow, ...]] = {}
    live_timing: dict[str, dict[str, Any]] = {}  # candidate or "reference": the last timing.round
    profiles: dict[str, ProfileView] = {}  # candidate id or "reference"
    reference_timing: TimingReport | None = None
    decisions: tuple[dict[str, Any], ...] = ()
    best: str | None = None
    controls: dict[str, ControlView] = {}
    usage: UsageView | None = None
    asked: dict[str, AskedView] = {}  # role: of its model
    replays: dict[str, ReplayView] = {}  # replay_key: the newest of each row
    log: dict[str, str] = {}  # stream: the last 16 kB
    result: ResultView | None = None

    def todo(self, todo_id: str) -> Todo | None:
        return next((t for t in self.plan.todos if t.id == todo_id), None) if self.plan else None
