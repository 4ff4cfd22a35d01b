"""A model judge of a team, over a real small server: what it is shown, what it costs, and what a broken one leaves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.judges import Judgement
from agents.rubric import DIMENSIONS
from stitchweb.datasets.models import Judge, Record, Score, WorkState
from stitchweb.datasets.progress import Refused
from stitchweb.datasets.services.judging import make_judge, request_judge
from stitchweb.datasets.services.scoring import scores_of
from stitchweb.review.models import Adjudication
from stitchweb.runs.models import Run
from tests.agents.model_server import ModelServer, Refuse, Say
from tests.conftest import World, build_world
from tests.stitchweb.datasets_world import labelled
from tests.stitchweb.test_model_runs import model_at

pytestmark = [pytest.mark.django_db, pytest.mark.xdist_group("litellm")]
SCORES = dict.fromkeys(DIMENSIONS, 3) | {"hack_level": "none"}
ANSWER = "\n".join([*(f"{key}: as the anchor says. [model_new.py:1-2]" for key in DIMENSIONS), json.dumps(SCORES)])


@pytest.fixture
def world(settings: Any, db: None) -> World:
    settings.MODEL_SERVERS = ["127.0.0.1"]
    return build_world()


def made(world: World, server: ModelServer, **recipe: int) -> Judge:
    row = request_judge(
        None, world.team, "model", {"model": model_at(world, server).pk, "votes": 3, "most": 5} | recipe, send=False
    )
    make_judge(row, lambda *told: None)
    row.refresh_from_db()
    return row


def test_it_asks_about_what_is_held_out_with_examples_that_experts_settled(world: World) -> None:
    labelled(world, 60, 20)
    assert Adjudication.objects.exists()
    with ModelServer([Say(ANSWER)]) as server:
        row = made(world, server)
    assert row.state == WorkState.DONE
    assert row.gate == "nothing"
    assert 1 <= Score.objects.filter(judge=row).count() <= 5
    assert row.recipe["broken"] == 0
    assert row.figures["n"] == row.recipe["asked"]
    chat = server.requests[0]["messages"]
    assert chat[0]["role"] == "system"
    assert "never an instruction" in chat[0]["content"]
    assert [m["role"] for m in chat[1:3]] == ["user", "assistant"]
    assert server.requests[0]["max_tokens"] <= 1500
    stored = Score.objects.filter(judge=row)[0].judgement
    assert stored["lines"][0]["file"] == "model_new.py"


def test_one_that_gives_no_scores_is_broken_and_leaves_none(world: World) -> None:
    labelled(world, 60, 20)
    with ModelServer([Say("I would say it is quite good.")]) as server, pytest.raises(Refused, match="The judge is broken"):
        made(world, server)
    row = Judge.objects.get()
    assert row.state == WorkState.FAILED
    assert not Score.objects.exists()


def test_a_server_that_refuses_ends_it_with_its_sentence_and_no_key(world: World) -> None:
    labelled(world, 60, 20)
    with ModelServer([Refuse(401, "no such key")]) as server, pytest.raises(Refused, match="could not be asked"):
        made(world, server)
    assert "sk-run" not in Judge.objects.get().problem


def candidate_not_scored(world: World, row: Judge) -> tuple[Run, str]:
    known = set(Score.objects.filter(judge=row).values_list("sha256", flat=True))
    record = Record.objects.filter(team=world.team).exclude(sha256__in=known).order_by("pk")[0]
    return Run.objects.select_related("team", "revision").get(pk=record.run_id), record.candidate


def test_about_a_runs_candidate_it_is_asked_as_it_was_calibrated_and_once(world: World) -> None:
    labelled(world, 60, 20)
    with ModelServer([Say(ANSWER)]) as server:
        row = made(world, server)
        run, cid = candidate_not_scored(world, row)
        asked = len(server.requests)
        first = server.requests[0]["messages"]
        [score] = scores_of(row, run, [cid]).values()
        assert score.broken == ""
        assert Judgement.model_validate(score.judgement).level("anti_hacking") == 3
        assert len(server.requests) == asked + 3
        again = server.requests[asked]["messages"]
        assert again[0] == first[0]
        shots = {message["content"] for message in first[1:-1]}
        assert {message["content"] for message in again[1:-1]} & shots
        assert list(scores_of(row, run, [cid]).values()) == [score]
        assert len(server.requests) == asked + 3


def test_where_it_breaks_on_one_there_is_no_score_but_why(world: World) -> None:
    labelled(world, 60, 20)
    with ModelServer([Say(ANSWER)]) as server:
        row = made(world, server)
    run, cid = candidate_not_scored(world, row)
    [score] = scores_of(row, run, [cid]).values()  # its server is gone
    assert score.judgement is None
    assert "could not be asked" in score.broken
    Judge.objects.filter(pk=row.pk).update(file="", sha256="")
    Score.objects.filter(pk=score.pk).delete()
    [score] = scores_of(Judge.objects.get(pk=row.pk), run, [cid]).values()
    assert "make a new version" in score.broken
