"""Rubric versions: whole when read, the same for ever once somebody scores under them."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from pydantic import ValidationError

from stitchweb.review.demo import SCORED
from stitchweb.review.models import Project, Review, Rubric
from stitchweb.review.rubric import LEVELS, RubricContent, shipped
from stitchweb.review.services.projects import create_project
from stitchweb.review.services.rubrics import RubricFrozen, ensure_rubrics
from stitchweb.runs.demo.store import Size, seed
from tests.conftest import World


def changed(content: RubricContent) -> RubricContent:
    return content.model_copy(update={"about": "Other words."})


def test_every_shipped_rubric_has_an_anchor_and_an_example_for_each_level_and_skill() -> None:
    contents = shipped()
    assert [(r.key, r.version) for r in contents] == [("kernels", 1)]
    for content in contents:
        assert [d.name for d in content.dimensions] == [
            "Anti-Hacking", "CUDA Engineering", "Operator Coverage", "Skill Compliance",
        ]  # fmt: skip
        assert [w.key for w in content.hack_levels] == ["none", "shortcut", "minor", "major", "unsure"]
        for dimension in content.dimensions:
            assert tuple(level.level for level in dimension.levels) == LEVELS
            for skill in ("from_scratch", "feedback"):
                assert dimension.guide(skill)
                anchors = [level.anchor(skill) for level in dimension.levels]
                assert len(set(anchors)) == len(LEVELS)
                assert all(len(anchor) > 60 and len(level.code.strip().splitlines()) > 1
                           for anchor, level in zip(anchors, dimension.levels, strict=True))  # fmt: skip


def test_a_rubric_that_lacks_a_level_or_repeats_a_letter_is_refused() -> None:
    whole = shipped()[0].model_dump(mode="json")
    lacking = whole | {"dimensions": [whole["dimensions"][0] | {"levels": whole["dimensions"][0]["levels"][:4]}]}
    with pytest.raises(ValidationError, match="levels 1 to 5"):
        RubricContent.model_validate(lacking)
    with pytest.raises(ValidationError, match="share a key or a letter"):
        RubricContent.model_validate(whole | {"dimensions": [whole["dimensions"][0]] * 2})


@pytest.mark.django_db
def test_an_unused_version_is_renewed_and_a_used_one_is_not(world: World) -> None:
    content = shipped()[0]
    assert ensure_rubrics([changed(content)])[0].content["about"] == "Other words."
    row = ensure_rubrics()[0]
    create_project(world.owner, world.team, row, "In use")
    assert ensure_rubrics() == [row]
    with pytest.raises(RubricFrozen, match=r"kernels-2\.toml"):
        ensure_rubrics([changed(content)])
    assert Rubric.objects.get(pk=row.pk).content == content.model_dump(mode="json")
    assert [str(r) for r in ensure_rubrics([changed(content).model_copy(update={"version": 2})])] == ["kernels/2"]


@pytest.mark.django_db
def test_the_synthetic_project_needs_synthetic_runs_says_what_it_is_and_is_made_once() -> None:
    with pytest.raises(CommandError, match="seed_demo"):
        call_command("seed_review")
    seed(Size(programs=1, runs=3, events=0), lambda line: None)
    for _ in range(2):
        call_command("seed_review", stdout=StringIO())
    project = Project.objects.get()
    assert project.synthetic
    assert project.items.count() >= SCORED
    reviews = Review.objects.all()
    assert len(reviews) == SCORED
    assert {r.reason for review in reviews for r in review.ratings.all()} == {"Made up by seed_review."}
