"""A team's judge on candidates of runs: asked by the agent worker once, told on their pages, heeded between equals."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents.engineers.scripted import Scripted
from agents.rubric import DIMENSIONS
from stitchweb.datasets.configs.data import Data
from stitchweb.datasets.models import Judge, Score, ScoredRun
from stitchweb.datasets.progress import silent
from stitchweb.datasets.services.collect import collect
from stitchweb.datasets.services.judging import activate
from stitchweb.datasets.services.placing import place
from stitchweb.datasets.services.scoring import PATIENCE, SCORE_RUN, _case, score_run, send_unscored
from stitchweb.datasets.snapshot import freeze
from stitchweb.datasets.tasks import score_task
from stitchweb.runs import services
from stitchweb.runs.history import view_of
from stitchweb.runs.models import Event, Run
from stitchweb.teams.models import User
from tests.agents.loop_world import FakeHands, options, program, scripted_name, timing, todo
from tests.conftest import World, build_world
from tests.stitchweb.api_world import caller
from tests.stitchweb.conveyor import Conveyor
from tests.stitchweb.datasets_world import labelled
from tests.stitchweb.judged_world import active_judge, content_of, said, score_all, trained
from tests.stitchweb.markup import well_formed
from tests.stitchweb.test_review_pages import text_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world() -> World:
    return build_world()


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def begin(world: World, *codes: str, **more: Any) -> Run:
    engineer = Scripted(plans=[[todo(f"t{n}", f"Item {n}") for n in range(len(codes))]], codes=[program(c) for c in codes])
    return services.start_run(world.owner, world.revision, options(scripted_name(engineer), **more))


def deliver(conveyor: Conveyor, hands: FakeHands) -> None:
    """Runners and agent workers until all is at rest; what the judge was sent is done."""
    while True:
        conveyor.run(hands)
        sent = [m for m in conveyor.messages if m[0] == SCORE_RUN]
        conveyor.messages.clear()
        if not sent:
            return
        for _, _, arguments in sent:
            score_task(**arguments)


def panel(world: World, run: Run, cid: str = "c1") -> str:
    answer = client_of(world.viewer).get(f"/datasets/runs/{run.pk}/?candidate={cid}", headers={"HX-Request": "true"})
    assert answer.status_code == 200
    well_formed(f"<!doctype html><title>x</title><main>{answer.content.decode()}</main>")
    return text_of(answer)


def test_candidates_of_a_run_get_the_judges_scores_once_and_the_page_tells_them(world: World, conveyor: Conveyor) -> None:
    judge = trained(active_judge(world.team))
    run = begin(world, "one", "two")
    deliver(conveyor, FakeHands())
    run.refresh_from_db()
    assert run.ended
    rows = {score.pk: score.judgement for score in Score.objects.filter(judge=judge)}
    assert len(rows) == 2
    assert all(set(judgement["levels"]) == set(DIMENSIONS) for judgement in rows.values())
    assert list(ScoredRun.objects.values_list("run", "done")) == [(run.pk, True)]
    run = Run.objects.select_related("team", "revision").get(pk=run.pk)
    assert score_run(run) == 0
    assert {score.pk: score.judgement for score in Score.objects.filter(judge=judge)} == rows
    page = panel(world, run)
    assert "local judge 7, may score" in page
    assert "Chance of a major hack" in page
    assert "Operator coverage" in page
    whole = client_of(world.viewer).get(f"/datasets/runs/{run.pk}/?candidate=c1")
    well_formed(whole.content.decode())
    assert f"/datasets/runs/{run.pk}/?candidate=" in client_of(world.viewer).get(f"/runs/{run.pk}/").content.decode()
    assert client_of(world.outsider).get(f"/datasets/runs/{run.pk}/").status_code == 404


def test_a_team_without_a_judge_pays_nothing_and_sees_nothing(world: World, conveyor: Conveyor) -> None:
    run = begin(world, "one")
    conveyor.run(FakeHands())
    assert not conveyor.sent(SCORE_RUN)
    assert "/datasets/runs/" not in client_of(world.owner).get(f"/runs/{run.pk}/").content.decode()
    assert client_of(world.owner).get(f"/datasets/runs/{run.pk}/").status_code == 404
    assert "judge_ties" not in client_of(world.owner).get("/upload/").content.decode()


def test_one_that_may_only_rank_shows_no_level(world: World, conveyor: Conveyor) -> None:
    judge = active_judge(world.team, gate="rank")
    run = begin(world, "one")
    conveyor.run(FakeHands())
    score_all(judge, run, said(4, why="OKAPI"))
    page = panel(world, run)
    assert "may only rank" in page
    assert "no level is shown" in page
    assert "OKAPI" not in page
    assert "hack" not in page.lower()
    assert "jd-l" not in page


def test_a_judge_that_broke_has_no_score_and_is_asked_anew_when_it_is_chosen_again(world: World, conveyor: Conveyor) -> None:
    judge = active_judge(world.team, file="judges/gone.json", sha256="0" * 64)
    run = begin(world, "one")
    deliver(conveyor, FakeHands())
    [score] = Score.objects.all()
    assert score.judgement is None
    assert "cannot be read" in score.broken
    page = panel(world, run)
    assert "It broke: What it is made of cannot be read" in page
    assert "nothing stands in for one" in page
    trained(judge)
    activate(world.team, judge.pk)
    ScoredRun.objects.update(sent_at=timezone.now() - 2 * PATIENCE)
    send_unscored()
    deliver(conveyor, FakeHands())
    [score] = Score.objects.all()
    assert score.broken == ""
    assert "Chance of a major hack" in panel(world, run)


def test_a_run_whose_message_was_lost_is_sent_with_a_sweep_and_again_after_a_while(world: World, conveyor: Conveyor) -> None:
    judge = trained(active_judge(world.team))
    begin(world, "one")
    conveyor.run(FakeHands())
    conveyor.messages.clear()
    send_unscored()
    assert not conveyor.sent(SCORE_RUN)  # it was sent when the run ended, a moment ago
    ScoredRun.objects.all().delete()
    send_unscored()
    assert len(conveyor.sent(SCORE_RUN)) == 1
    send_unscored()
    assert len(conveyor.sent(SCORE_RUN)) == 1
    ScoredRun.objects.update(sent_at=timezone.now() - 2 * PATIENCE)
    send_unscored()
    assert len(conveyor.sent(SCORE_RUN)) == 2
    deliver(conveyor, FakeHands())
    assert Score.objects.filter(judge=judge).count() == 1
    ScoredRun.objects.update(sent_at=timezone.now() - 2 * PATIENCE)
    send_unscored()
    assert not conveyor.sent(SCORE_RUN)


def test_a_model_judge_is_not_asked_about_runs_from_before_it_was_chosen(world: World, conveyor: Conveyor) -> None:
    begin(world, "one")
    conveyor.run(FakeHands())
    judge = active_judge(world.team)
    now = timezone.now()
    Judge.objects.filter(pk=judge.pk).update(kind="model", chosen_at=now, created_at=now - timedelta(days=9))
    conveyor.messages.clear()
    send_unscored()
    assert not conveyor.sent(SCORE_RUN)


def test_what_the_judge_sees_of_a_runs_candidate_is_what_it_learnt_from(world: World) -> None:
    team = labelled(world)
    collect(team)
    data = Data(freeze(team, place(team), silent))
    seen = 0
    for row in list(data.candidates.values())[:12]:
        run = Run.objects.select_related("team", "revision").get(pk=row["run"])
        view = view_of(run.pk)
        assert _case(run, view, view.candidates[row["candidate"]]) == data.case(row)
        seen += 1
    assert seen == 12


def equal_run(world: World, conveyor: Conveyor, levels: tuple[int, int], gate: str = "score", **more: Any) -> Run:
    """Two candidates that are equally fast; what the judge says of each is stored beforehand."""
    judge = active_judge(world.team, gate=gate)
    for code, level in zip(("one", "two"), levels, strict=True):
        sha256 = content_of(world.revision.text, program(code))
        Score.objects.create(judge=judge, sha256=sha256, judgement=said(level).stored)
    run = begin(world, "one", "two", judge_ties=True, **more)
    conveyor.run(FakeHands(time=timing(1.5)))
    run.refresh_from_db()
    return run


@pytest.mark.parametrize("gate", ["score", "rank"])
def test_between_equals_the_higher_judged_is_the_best_and_the_decision_says_so(
    world: World, conveyor: Conveyor, gate: str
) -> None:
    run = equal_run(world, conveyor, (2, 4), gate)
    assert (run.verdict, run.best) == ("verified", "c2")
    [told] = [e.payload["tie"] for e in Event.objects.filter(run=run, kind="decision.made") if e.payload.get("tie")]
    assert told == "c1 and c2 are not distinguishable in speed. The local judge 7 rates c2 highest, so it is the best."
    assert told in text_of(client_of(world.viewer).get(f"/runs/{run.pk}/?candidate=c2"))


def test_a_judge_that_left_meanwhile_breaks_no_tie(world: World, conveyor: Conveyor) -> None:
    active_judge(world.team)
    run = begin(world, "one", "two", judge_ties=True)
    Judge.objects.update(active=False)
    conveyor.run(FakeHands(time=timing(1.5)))
    run.refresh_from_db()
    assert run.best == "c1"
    told = [e.payload["tie"] for e in Event.objects.filter(run=run, kind="decision.made") if e.payload.get("tie")]
    assert "no judge now that may rank" in told[0]


def test_the_option_stands_on_the_forms_of_a_team_with_a_judge_and_is_refused_elsewhere(world: World) -> None:
    program_page = f"/programs/{world.revision.program_id}/"
    owner = client_of(world.owner)
    api = caller(world.owner)
    body = {"program": world.revision.program_id, "judge_ties": True}
    assert "judge_ties" not in owner.get(program_page).content.decode()
    status, answer = api.post("runs", body, Idempotency_Key="a")
    assert status == 422
    assert "no judge that may rank" in str(answer)
    active_judge(world.team, gate="rank")
    for path in (program_page, "/upload/"):
        page = owner.get(path)
        assert "A judge between equals" in text_of(page)
        assert 'name="judge_ties" checked' not in page.content.decode()
    status, answer = api.post("runs", body, Idempotency_Key="b")
    assert status == 201
    assert Run.objects.get(pk=answer["id"]).load().options.judge_ties
