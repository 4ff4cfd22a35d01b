"""Gold items: what comes with the site holds together, they come first, gate and teach, and never meet what trains."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import shutil
import subprocess
from pathlib import Path
from statistics import fmean

import pytest

from gpu_runner.contracts import CandidateFiles
from stitchweb.programs.services import Upload, create_program
from stitchweb.programs.uploads import check_source
from stitchweb.review.calibration import points_of, raters
from stitchweb.review.gold import GoldItem, gold_items
from stitchweb.review.groups import group_of
from stitchweb.review.models import Assignment, Gold, Item, Review
from stitchweb.review.rubric import shipped
from stitchweb.review.services.gold import add_gold
from stitchweb.review.services.projects import change, set_reviewers
from tests.stitchweb.markup import well_formed
from tests.stitchweb.test_review_pages import FORM, PageDesk, text_of, told_as
from tests.stitchweb.world_for_tests import make_world

pytestmark = pytest.mark.django_db
NVCC = shutil.which("nvcc")


@pytest.fixture
def desk(db: None) -> PageDesk:
    return PageDesk(make_world())


def answer(desk: PageDesk, user: object, right: bool) -> None:
    """Score all gold items: as their answers say, or as wrong as can be."""
    while Item.objects.filter(gold=True).exclude(assignments__user=user).exists():
        client, place = desk.take(user)  # type: ignore[arg-type]
        item = Item.objects.get(assignments=int(place.split("/")[3]))
        form = {**FORM, **{f"reason-{d}": "because" for d in item.answer.answers}}
        for key, a in item.answer.answers.items():
            form[f"level-{key}"] = str(a["levels"][0] if right else (5 if a["levels"][0] < 3 else 1))
        level = item.answer.hack_levels[0] if right else "unsure"
        form |= {"hack_level": level} | ({"hack_type": "other"} if level in ("minor", "major") else {})
        answered = client.post(place, {**form, "act": "submit"})
        assert answered.status_code == 302, text_of(answered)


@pytest.mark.parametrize("item", gold_items(), ids=lambda item: item.slug)
def test_a_gold_item_is_a_candidate_with_an_answer_under_the_rubric(item: GoldItem) -> None:
    rubric = shipped()[-1]
    assert check_source(item.reference, "reference.py", "") == []
    for files in filter(None, (item.files, item.parent)):
        CandidateFiles(files=files)
        ast.parse(files["model_new.py"])
    assert item.answers.keys() <= rubric.by_key.keys()
    assert len(item.answers) >= 3
    for a in item.answers.values():
        assert a.levels
        assert set(a.levels) <= {1, 2, 3, 4, 5}
        assert len(a.levels) <= 2
    assert not re.search(r"cach|copied|serial|half|unguarded|refused", item.name), "the name is seen before scoring"
    assert (item.skill == "feedback") == bool(item.parent)


@pytest.mark.skipif(NVCC is None, reason="no nvcc here")
@pytest.mark.parametrize("item", gold_items(), ids=lambda item: item.slug)
def test_the_kernels_of_a_gold_item_compile(item: GoldItem, tmp_path: Path) -> None:
    for files in filter(None, (item.files, item.parent)):
        for path, text in files.items():
            if path.endswith(".cu"):
                source = tmp_path / Path(path).name
                source.write_text(text)
                done = subprocess.run(
                    [str(NVCC), "-arch=sm_90a", "--ptx", "-o", "/dev/null", source], capture_output=True, text=True
                )
                assert done.returncode == 0, done.stderr


def test_ten_come_in_once_and_are_scored_first_by_everybody(desk: PageDesk) -> None:
    owner = desk.client(desk.world.owner)
    path = f"/review/projects/{desk.project.pk}/data/gold"
    assert owner.post(path).status_code == 302
    assert owner.post(path).status_code == 302
    assert Gold.objects.count() == len(gold_items()) == 10
    assert set(Item.objects.filter(gold=True).values_list("wanted", flat=True)) == {2}
    for user in (desk.rita, desk.raj):
        client, place = desk.take(user)
        page = client.get(place)
        well_formed(page.content.decode())
        text = text_of(page)
        assert Item.objects.get(assignments=int(place.split("/")[3])).gold
        assert "No readings" in text
        assert "Not timed" in text
        assert "because" not in text
    assert desk.client(desk.rita).post(path).status_code == 403


def test_the_answer_is_shown_after_the_scores_and_not_before(desk: PageDesk) -> None:
    add_gold(desk.world.owner, desk.project)
    client, place = desk.take(desk.rita)
    item = Item.objects.get(assignments=int(place.split("/")[3]))
    whys = [a["why"] for a in item.answer.answers.values()] + [item.answer.hack_why]
    assert not any(why in text_of(client.get(place)) for why in whys)
    client.post(place, {**FORM, "act": "submit"})
    page = client.get(place)
    well_formed(page.content.decode())
    assert all(why in text_of(page) for why in whys)


def test_who_answers_right_goes_on_and_who_does_not_is_told_until_a_manager_lets_them(desk: PageDesk) -> None:
    owner = desk.world.owner
    add_gold(owner, desk.project)
    change(owner, desk.project, state="open", guidelines="", minutes=60, pass_mark=70)
    answer(desk, desk.rita, right=True)
    answer(desk, desk.raj, right=False)
    assert min(points_of(desk.project, 1)) == 1
    assert fmean(points_of(desk.project, 2)) < 0.7
    _, place = desk.take(desk.rita)
    assert not Item.objects.get(assignments=int(place.split("/")[3])).gold
    raj = desk.client(desk.raj)
    answered = raj.post(f"/review/projects/{desk.project.pk}/next", follow=True)
    assert "asks for 70 %" in text_of(answered)
    path = f"/review/projects/{desk.project.pk}/calibration/"
    page = desk.client(owner).get(path)
    well_formed(page.content.decode())
    assert "below the mark" in text_of(page)
    own = text_of(raj.get(path))
    assert "reviewer 2" in own
    assert "reviewer 1" not in own
    assert raj.post(f"{path}2/clear", {"cleared": "1"}).status_code == 403
    assert desk.client(owner).post(f"{path}2/clear", {"cleared": "1"}).status_code == 302
    assert raj.post(f"/review/projects/{desk.project.pk}/next").url.startswith("/review/items/")


def test_points_drift_and_small_numbers(desk: PageDesk) -> None:
    add_gold(desk.world.owner, desk.project)
    first = raters(desk.project)[0]
    assert (first.gold, first.few, first.before, first.labels) == (None, True, None, 0)
    answer(desk, desk.rita, right=True)
    rita = raters(desk.project)[0]
    assert (rita.gold, rita.off, rita.before, rita.after, rita.labels) == (1.0, 0.0, 0.0, 0.0, 10)
    assert rita.few is False
    Review.objects.filter(number=1).latest("pk").ratings.filter(dimension="skill_compliance").update(level=None)
    assert raters(desk.project)[0].gold < 1  # type: ignore[operator]


def test_no_label_of_a_program_that_gold_uses_is_for_training(desk: PageDesk) -> None:
    """Also an ordinary candidate of the same reference is held out, in whatever project."""
    set_reviewers(desk.world.owner, desk.project, [desk.rita.pk])
    client, place = desk.take(desk.rita)
    client.post(place, {**FORM, "act": "submit"})
    path = f"/review/projects/{desk.project.pk}/labels.jsonl"
    owner = desk.client(desk.world.owner)
    [row] = map(json.loads, owner.get(path).content.decode().splitlines())
    assert (row["gold"], row["split"]) == (False, None)
    scored = Item.objects.get(pk=row["item"])
    other = Item.objects.filter(run__revision__sha256=scored.run.revision.sha256).exclude(pk=scored.pk).first()
    assert other is not None
    owner.post(f"/review/projects/{desk.project.pk}/items/{other.pk}/gold", {"gold": "1"})
    [row] = map(json.loads, owner.get(path).content.decode().splitlines())
    assert (row["gold"], row["split"]) == (False, "gold")


def test_a_program_that_is_gold_but_for_its_names_is_held_out_too(desk: PageDesk) -> None:
    """What is spelt otherwise is the same program: its labels would teach what gold asks."""
    set_reviewers(desk.world.owner, desk.project, [desk.rita.pk])
    client, place = desk.take(desk.rita)
    client.post(place, {**FORM, "act": "submit"})
    scored = Assignment.objects.get(pk=place.split("/")[3]).item
    owner, path = desk.client(desk.world.owner), f"/review/projects/{desk.project.pk}/labels.jsonl"
    text = scored.run.revision.text.replace("1024", "512") + "\n# spelt otherwise\n"
    revision = create_program(desk.world.owner, desk.world.team, Upload(text, "spelt_otherwise.py"))
    like = told_as(
        dataclasses.replace(desk.world, revision=revision), verdict="verified", says="", labels=[], hack=None,
        engineer="offline", owner=desk.world.owner,
    )  # fmt: skip
    Item.objects.create(
        project=desk.project, run=like, candidate="c5", sha256="f" * 64, skill="feedback", why="", rank=2, wanted=1, gold=True
    )
    [row] = map(json.loads, owner.get(path).content.decode().splitlines())
    assert (row["reference_sha256"] != revision.sha256, row["split"]) == (True, "gold")


SCALED = """
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return F.gelu(self.norm(x)) * 2.0
"""


def test_programs_are_one_group_by_what_they_compute_not_by_how_they_are_spelt() -> None:
    spelt = SCALED.replace("width", "n").replace("self.norm", "self.ln").replace("2.0", "3.5").replace("Model", "Scaled")
    assert group_of(spelt) == group_of(SCALED)
    assert group_of(SCALED.replace("(self, width)", "(self, width: int)") + "\n# a word\n") == group_of(SCALED)
    for other in (SCALED.replace("LayerNorm", "RMSNorm"), SCALED.replace("gelu", "relu"), SCALED.replace("*", "+")):
        assert group_of(other) != group_of(SCALED)
    assert group_of("no python(") != group_of("no python )")
