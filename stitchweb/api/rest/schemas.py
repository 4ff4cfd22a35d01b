"""What requests bring and answers hold. Times are ISO 8601 in UTC; a ratio comes with its 95 % interval."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from django.conf import settings
from django.urls import reverse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from agents.events import CandidateView, Event
from agents.state import Status
from gpu_runner.contracts import Interval, TimingReport
from stitchweb.programs.models import Program, Revision
from stitchweb.runs.models import Run

BIG = 2**53 - 1  # what every reader of JSON can hold
State = Literal[tuple(status.value for status in Status)]  # type: ignore[valid-type]


def _whole(value: object) -> object:
    """JSON knows one kind of number: 12.0 is a whole one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]
Key = Annotated[int, Field(ge=1, le=BIG), BeforeValidator(_whole)]  # of a row
Number = Annotated[int, Field(ge=1, le=2**31 - 1), BeforeValidator(_whole)]  # of a revision


class Taken(BaseModel):
    """What a request brings: nothing that the description does not know, and no text where it says a number."""

    model_config = ConfigDict(extra="forbid", strict=True)


class TeamOut(BaseModel):
    """A team, and what the token's person is in it."""

    slug: str
    name: str
    role: str


class ModelOut(BaseModel):
    """A model that runs of a team may ask. `id` is what a run names."""

    id: int
    name: str
    provider: str


class RevisionOut(BaseModel):
    """One text of a program, immutable. `sha256`: of text and entry."""

    number: int
    sha256: str
    entry: str
    analysis: str = Field(description="none, queued, running, done or failed")
    created_at: datetime


class ProgramOut(BaseModel):
    """A PyTorch program. `revision`: the number of the newest one."""

    id: int
    name: str
    team: str
    description: str
    tags: list[str]
    revision: int
    created_at: datetime
    page: str = Field(description="where people see it")


class ProgramWithRevisions(ProgramOut):
    """A program with its revisions, the newest first, 100 at most."""

    revisions: list[RevisionOut]


class ProgramNew(Taken):
    """A program to upload. Without `team`: the first team in which the person uploads."""

    text: str = Field(description="Python: a module class, get_inputs() and get_init_inputs()")
    name: str = Field("", max_length=120)
    filename: str = Field("", max_length=200, description="for the name and for sentences about the file")
    team: str = Field("", max_length=60, description="slug of a team")
    entry: str = Field("", max_length=120, description="the module class, where it is not called Model")
    description: str = Field("", max_length=4000)
    tags: list[str] = Field([], max_length=20)
    analyse: bool = Field(False, description="say at once what it is: shapes, operators, warnings")


class RevisionNew(Taken):
    """The next text of a program. The text that is there already makes none."""

    text: str
    entry: str = Field("", max_length=120)


class Ratio(BaseModel):
    """How much faster, with its 95 % interval."""

    value: float
    low: float
    high: float


class RunOut(BaseModel):
    """A run. `last_event`: how far its events go; `speedup`: of the best candidate over eager, where one is claimed."""

    id: int
    name: str
    team: str
    program: int
    revision: int
    target: str
    protocol: str
    engineer: str
    status: State
    ended: bool
    verdict: str
    speed: str
    speedup: Ratio | None
    best: str = Field(description="the best candidate, empty where there is none")
    candidates: int
    stop_cause: str
    sentence: str
    last_event: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    page: str


class RunNew(Taken):
    """A run to start. Every field but `program` has the default of the site's own form."""

    program: Whole = Field(ge=1, le=BIG)
    revision: Number | None = Field(None, description="its number; the newest one without it")
    target: Literal["cpu", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"] = "cpu"
    protocol: Literal["strict", "quick", "kernelbench"] = "strict"
    mode: Literal["eval", "train", "as_constructed"] = "eval"
    precision: Literal["as-reference", "tf32", "bf16"] = "as-reference"
    planner: Key | None = Field(None, description="a model of the team; the offline engineer without it")
    coder: Key | None = None
    verifier: Key | None = None
    coder_tools: bool = Field(False, description="the Coder's model builds, checks, times and profiles before it hands in")
    attempts: Whole = Field(12, ge=1, le=200)
    minutes: Annotated[float, Field(ge=0.1, le=1440)] | None = 15
    device_seconds: float | None = Field(None, ge=1, le=86_400)
    tokens_k: float | None = Field(None, ge=1, le=100_000, description="thousands of tokens")
    money: float | None = Field(None, ge=0.01, le=10_000, description="USD")
    target_speedup: float | None = Field(None, ge=1, le=1000)
    width: Whole = Field(1, ge=1, le=8, description="programs written at once")
    beam: Whole = Field(1, ge=1, le=8, description="of the best programs so far that they start from")
    require_own_kernels: bool = False
    approve_plan: bool = False
    judge_ties: bool = Field(False, description="the team's judge chooses the best among equally fast candidates")


class FileOut(BaseModel):
    path: str
    size: int
    sha256: str


class CandidateOut(BaseModel):
    """A candidate of a run, as far as lists need it."""

    id: str
    parent: str | None
    title: str
    author: str
    skill: str
    status: str
    verdict: str | None
    sentence: str
    labels: list[str]
    speed: str
    speedup: Ratio | None
    files: list[FileOut]


class CandidateReports(CandidateOut):
    """A candidate with what was measured of it. The reports are those of the runner, field by field."""

    build: dict[str, Any] | None
    check: dict[str, Any] | None
    rows: list[dict[str, Any]] = Field(description="each draw and probe of the check")
    timing: dict[str, Any] | None
    confirmed: dict[str, Any] | None
    finding: str
    note: str


class EventOut(BaseModel):
    """One numbered fact of a run. Numbers have no gaps; the last word on a thing is what it is."""

    seq: int
    kind: str
    at: datetime
    who: str
    payload: dict[str, Any]


class EventPage(BaseModel):
    """Events in order. `last`: what to ask `after` next."""

    events: list[EventOut]
    last: int


class ProjectOut(BaseModel):
    """A review project that the person scores in, settles or manages."""

    id: int
    name: str
    team: str
    rubric: str
    state: str
    overlap: int
    page: str


class CandidatesNew(Taken):
    """Candidates from elsewhere, for a review project: 1000 at most, all or none."""

    candidates: list[dict[str, Any]] = Field(min_length=1, max_length=1000)


class Came(BaseModel):
    """`came` of `sent` are in the queue now; the others were in it already."""

    sent: int
    came: int


class ProgramPage(BaseModel):
    """`next`: the cursor of the following page, null on the last one."""

    items: list[ProgramOut]
    next: str | None


class RunPage(BaseModel):
    """`next`: the cursor of the following page, null on the last one."""

    items: list[RunOut]
    next: str | None


def page_of(name: str, *args: object) -> str:
    """The whole address of a page for people."""
    return f"{settings.SITE_URL}{reverse(name, args=args)}"


def program_out(program: Program, revision: int) -> ProgramOut:
    return ProgramOut(
        id=program.pk, name=program.name, team=program.team.slug, description=program.description, tags=list(program.tags),
        revision=revision, created_at=program.created_at, page=page_of("program", program.pk),
    )  # fmt: skip


def revision_out(row: Revision) -> RevisionOut:
    return RevisionOut(
        number=row.number, sha256=row.sha256, entry=row.entry, analysis=row.analysis_state, created_at=row.created_at
    )


def run_out(run: Run) -> RunOut:
    """A run's row as `runs_for` gives it."""
    over = None
    if run.speedup is not None and run.speedup_low is not None and run.speedup_high is not None:
        over = Ratio(value=run.speedup, low=run.speedup_low, high=run.speedup_high)
    return RunOut(
        id=run.pk, name=run.name, team=run.team.slug, program=run.revision.program_id, revision=run.revision.number,
        target=run.target, protocol=run.protocol, engineer=run.engineer, status=run.status, ended=run.ended,
        verdict=run.verdict, speed=run.speed, speedup=over, best=run.best, candidates=run.candidates,
        stop_cause=run.stop_cause, sentence=run.sentence, last_event=run.last_seq, created_at=run.created_at,
        started_at=run.started_at, ended_at=run.ended_at, page=page_of("run", run.pk),
    )  # fmt: skip


def _ratio(found: Interval | None) -> Ratio | None:
    return Ratio(value=found.value, low=found.low, high=found.high) if found else None


def candidate_out(view: CandidateView) -> CandidateOut:
    return CandidateOut(**_of_lists(view))


def candidate_reports(view: CandidateView) -> CandidateReports:
    def plain(report: TimingReport | None) -> dict[str, Any] | None:
        return report.model_dump(mode="json") if report else None

    return CandidateReports(
        **_of_lists(view), build=view.build, check=view.check, rows=[row.model_dump(mode="json") for row in view.rows],
        timing=plain(view.timing), confirmed=plain(view.confirmed), finding=view.finding, note=view.note,
    )  # fmt: skip


def _of_lists(view: CandidateView) -> dict[str, Any]:
    report = view.confirmed or view.timing
    return {
        "id": view.id, "parent": view.parent, "title": view.title, "author": view.author, "skill": view.skill,
        "status": view.status, "verdict": view.verdict, "sentence": view.sentence, "labels": [str(x) for x in view.labels],
        "speed": str(report.speed) if report else "", "speedup": _ratio(report.over_eager) if report else None,
        "files": [FileOut(path=path, size=ref.size, sha256=ref.sha256) for path, ref in sorted(view.files.items())],
    }  # fmt: skip


def event_out(event: Event) -> EventOut:
    at = datetime.fromtimestamp(event.at, UTC)
    return EventOut(seq=event.seq, kind=event.kind, at=at, who=event.who, payload=event.payload)
