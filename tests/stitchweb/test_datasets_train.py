"""manage.py train: what it takes of a team, what it refuses, and a whole run on the rows of a release."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command

from agents.training import command
from agents.training.driver import Given
from stitchweb.datasets.models import Judge, WorkState
from tests.conftest import World
from tests.stitchweb.datasets_world import labelled, released

pytestmark = pytest.mark.django_db


def train(**options: Any) -> str:
    said = io.StringIO()
    call_command("train", stderr=said, **options)
    return said.getvalue()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Given]:
    """What would be run, without running it: that is tested in tests/agents."""
    found: list[Given] = []
    monkeypatch.setattr(command, "carried_out", lambda given: found.append(given) or 0)
    return found


def test_the_rows_of_a_release_and_the_teams_judge_are_handed_over(
    world: World, tmp_path: Path, asked: list[Given], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["manage.py", "train", "--seed", "7"])
    team = labelled(world, 48, 8)
    released(team)
    stored = default_storage.save("judges/for-training.json", ContentFile(b'{"weights": 1}'))
    Judge.objects.create(team=team, kind="local", version=1, state=WorkState.DONE, gate="score", active=True, file=stored)
    said = train(recipe="coder-skill1-32b", release="r1", team=team.slug, out=tmp_path / "run", smoke=True, seed=7)
    (given,) = asked
    assert "rows to train on" in said
    assert given.data == tmp_path / "run-data"
    rows = [json.loads(line) for line in (given.data / "grpo_skill1" / "train.jsonl").read_text().splitlines()]
    assert rows
    assert all("class Model" in row["reference_code"] for row in rows)
    assert given.judge[0] == "--judge"
    assert json.loads(Path(given.judge[1]).read_text()) == {"weights": 1}
    assert (given.recipe.model.name, given.seed) == ("tiny", 7)
    assert given.command == "python manage.py train --seed 7"


def test_a_judge_that_may_only_rank_shapes_no_reward(world: World, tmp_path: Path, asked: list[Given]) -> None:
    team = labelled(world)
    released(team)
    row = Judge.objects.create(team=team, kind="local", version=1, state=WorkState.DONE, gate="rank", active=True)
    how = {"release": "r1", "team": team.slug, "out": tmp_path / "run"}
    with pytest.raises(CommandError, match="local judge 1 cannot shape this reward: it may only rank"):
        train(recipe="coder-skill1-32b", **how)
    train(recipe="coder-toy", **how)  # milestones rest on no level
    assert asked[-1].judge == ()
    row.kind, row.gate = "model", "score"
    row.save()
    with pytest.raises(CommandError, match="its key does not leave the site"):
        train(recipe="coder-skill1-32b", **how)
    weights = tmp_path / "own.json"
    train(recipe="coder-skill1-32b", judge=weights, **how)
    assert asked[-1].judge == ("--judge", str(weights))


def test_what_is_not_there_is_said(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slug = world.team.slug
    for options, why in (
        ({"recipe": "coder"}, "There is no recipe 'coder'"),
        ({"recipe": "coder-toy", "release": "r9", "team": slug}, "has no release 'r9'. It has: none"),
        ({"recipe": "coder-toy", "release": "r9", "team": "nobody"}, "no team 'nobody'"),
        ({"recipe": "coder-toy", "team": slug}, "name it with --release"),
        ({"recipe": "coder-toy", "release": "r9", "data": tmp_path}, "leave one out"),
    ):
        with pytest.raises(CommandError, match=why):
            train(out=tmp_path / "run", **options)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "trl" else object())
    with pytest.raises(CommandError, match="`make setup-train`"):
        train(recipe="coder-toy")


@pytest.mark.slow
def test_a_release_trains_a_tiny_model_through_all_stages(world: World, tmp_path: Path) -> None:
    team = labelled(world, 48, 8)
    released(team)
    for recipe in ("judge-32b", "coder-skill2-32b"):
        out = tmp_path / recipe
        train(recipe=recipe, release="r1", team=team.slug, out=out, smoke=True)
        lines = [json.loads(line) for line in (out / "curve.jsonl").read_text().splitlines()]
        head, steps = lines[0], [line for line in lines if line["kind"] == "step"]
        assert head["recipe"] == recipe
        assert len({step["stage"] for step in steps}) >= len(head["stages"])
        assert list(out.glob("*/model/config.json"))
