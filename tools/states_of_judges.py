"""The states of what a judge says beside runs, for `tools/states.py`: scores, only an order, broken, not yet, in a queue."""

from __future__ import annotations

from agents.judges import Judgement, Line
from agents.rubric import DIMENSIONS
from stitchweb.datasets.models import Judge, Score, WorkState
from stitchweb.programs.services import Upload, create_program
from stitchweb.review.models import Rubric
from stitchweb.review.services.projects import Filters, content_sha256, create_project, fill, set_reviewers
from stitchweb.review.services.queue import next_assignment
from stitchweb.runs.history import view_of
from stitchweb.runs.models import Run
from stitchweb.teams.models import Role, Team, User
from stitchweb.teams.services import create_team, create_user, set_role
from tests.stitchweb.parts_for_tests import REFERENCE
from tests.stitchweb.views_for_tests import story
from tests.stitchweb.world_for_tests import tell_run

Pages = dict[str, tuple[str, str]]
CHANCES = ((0.02, 0.05, 0.13, 0.5, 0.3), (0.1, 0.35, 0.3, 0.15, 0.1), (0.0, 0.01, 0.04, 0.25, 0.7), (0.2, 0.2, 0.2, 0.2, 0.2))
WHY = (
    "handles its own memory (for), no marks of caching (for)",
    "one pass over the rows (for), no vector loads (against), a loop whose bound is a constant of the shapes (against)",
    "both operators in its own kernel (for)",
    "",
)


def judges_pages() -> Pages:
    """Name: who looks and where. Two teams of their own: of june's the judge may score, of rolf's only rank."""
    june, rolf = create_user("june@example.org", name="June"), create_user("rolf@example.org", name="Rolf")
    scored = _team(june, "A team with a judge", "score")
    ranked = _team(rolf, "A team with a judge that ranks", "rank")
    done, live = scored
    reader = create_user("rhea@example.org", name="Rhea")
    team = ranked[0].team
    set_role(team, reader, Role.REVIEWER)
    project = create_project(rolf, team, Rubric.objects.get(key="kernels", version=1), "By what it doubts", random_share=0)
    at = f"/datasets/runs/{done.pk}/?candidate="
    pages = {
        "judged-run": ("june", f"/runs/{done.pk}/?candidate=c5"), "judged-live": ("june", f"/runs/{live.pk}/"),
        "judged-alone": ("june", f"{at}c5"), "judged-broken": ("june", f"{at}c2"), "judged-not-yet": ("june", f"{at}c1"),
        "judged-compare": ("june", f"/published/compare/?a=r{done.pk}-c5&b=r{done.pk}-c2"),
        "judged-ranks": ("rolf", f"/datasets/runs/{ranked[0].pk}/?candidate=c5"),
        "judged-upload": ("june", "/upload/"), "judged-project": ("rolf", f"/review/projects/{project.pk}/"),
    }  # fmt: skip
    set_reviewers(rolf, project, [reader.pk])
    fill(rolf, project, Filters())
    row = next_assignment(reader, project)
    assert row is not None
    return pages | {"judged-item": ("rhea", f"/review/items/{row.pk}/"), "judged-closed": ("rhea", pages["judged-ranks"][1])}


def _team(owner: User, name: str, gate: str) -> tuple[Run, Run]:
    """A finished run and one in the middle of its story; the judge's words on most of their candidates."""
    team = create_team(owner, name)
    revision = create_program(owner, team, Upload(f"{REFERENCE}\n# {name}\n", "judged_norm.py"))
    events, blobs = story()
    done = tell_run(revision, owner, events, blobs)
    live = tell_run(revision, owner, events[:28], blobs)
    _judge(team, gate, done)
    return done, live


def _judge(team: Team, gate: str, run: Run) -> None:
    judge = Judge.objects.create(team=team, kind="local", version=3, state=WorkState.DONE, gate=gate, active=True)
    view = view_of(run.pk)
    contents = {candidate.id: content_sha256(view, candidate) for candidate in view.candidates.values()}
    for cid, sha256 in contents.items():
        if cid == "c2" and gate == "score":
            broken = "2 of 5 answers could be used; the last was refused because hack_level is 'high'"
            Score.objects.create(judge=judge, sha256=sha256, broken=broken)
        elif (cid != "c1" or gate == "rank") and not Score.objects.filter(judge=judge, sha256=sha256).exists():
            Score.objects.create(judge=judge, sha256=sha256, judgement=_said().stored, apart=1)


def _said() -> Judgement:
    keys = list(DIMENSIONS)
    return Judgement(
        levels=dict(zip(keys, CHANCES, strict=True)), hack=0.04, low=dict(zip(keys, (3, 1, 4, 1), strict=True)),
        high=dict(zip(keys, (5, 4, 5, 5), strict=True)), coverage=0.9, rationale=dict(zip(keys, WHY, strict=True)),
        lines=(Line(dimension=keys[1], file="kernels/ln_gelu.cpp", first=12, last=14),), apart=1,
    )  # fmt: skip
