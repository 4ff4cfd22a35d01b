"""What comes into a project and goes out of it: files, the trail, another rubric version, what is forgotten, what is said."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.utils import timezone

from stitchweb.core.upkeep import hourly
from stitchweb.review.models import Assignment, Change, Draft, Item, Project, Remark, Review, Reviewer
from stitchweb.review.rubric import changed, shipped
from stitchweb.review.services.projects import change
from stitchweb.review.services.rubrics import ensure_rubrics
from stitchweb.runs.models import Run
from tests.stitchweb.markup import well_formed
from tests.stitchweb.parts_for_tests import KERNEL, MODEL_NEW, REFERENCE
from tests.stitchweb.test_review_after import FINAL, disagree, path_of, sam, score  # noqa: F401
from tests.stitchweb.test_review_pages import FORM, PageDesk, text_of
from tests.stitchweb.world_for_tests import make_world

pytestmark = pytest.mark.django_db

FILES = {"model_new.py": MODEL_NEW, "kernels/a.cpp": KERNEL}
ROW: dict[str, Any] = {"name": "from afar", "reference": REFERENCE + "\n# afar\n", "files": FILES, "origin": "a paper"}


@pytest.fixture
def desk(db: None) -> PageDesk:
    return PageDesk(make_world())


def sent(desk: PageDesk, text: str, name: str = "some.jsonl") -> str:
    file = SimpleUploadedFile(name, text.encode())
    path = f"/review/projects/{desk.project.pk}/data/import"
    return text_of(desk.client(desk.world.owner).post(path, {"file": file}, follow=True))


def test_candidates_from_elsewhere_come_in_once_and_are_scored_like_others(desk: PageDesk) -> None:
    feedback = ROW | {
        "skill": "feedback",
        "feedback": ["Read once."],
        "parent": FILES,
        "files": FILES | {"kernels/a.cpp": KERNEL + "//"},
    }
    lines = "\n".join(map(json.dumps, (ROW, feedback, ROW)))
    before = Item.objects.count()
    assert "2 of 3 came into the queue" in sent(desk, lines)
    assert "0 of 3 came" in sent(desk, lines)
    assert Item.objects.count() == before + 2
    items = Item.objects.filter(why="brought in from elsewhere")
    assert {i.run.revision.program.name for i in items} == {"from afar"}
    Item.objects.exclude(pk__in=items).delete()
    told: list[bool] = []
    for _ in range(2):
        client, place = desk.take(desk.rita)
        page = client.get(place)
        well_formed(page.content.decode())
        assert "from afar" in text_of(page)
        assert "ln_gelu" in text_of(client.get(f"{place}code?against=nothing&file=kernels/a.cpp"))
        assert "Ada Byron" not in text_of(page)
        told.append("Read once." in text_of(page))
        assert client.post(place, {**FORM, "act": "submit"}).status_code == 302
    assert sorted(told) == [False, True]
    run = items[0].run
    assert desk.client(desk.world.owner).get(f"/runs/{run.pk}/").status_code == 200


def test_a_csv_file_says_the_same(desk: PageDesk) -> None:
    out = io.StringIO()
    writer = csv.DictWriter(out, [*ROW, "feedback"])
    writer.writeheader()
    writer.writerow(ROW | {"files": json.dumps(FILES), "feedback": json.dumps(["float32"])})
    assert "1 of 1 came into the queue" in sent(desk, out.getvalue(), "some.csv")


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        ("", "a.jsonl", "no candidate in it"),
        ("[1]", "a.jsonl", "one JSON object"),
        ("{", "a.jsonl", "line 1: this is no JSON"),
        (json.dumps(ROW) + "\n" + json.dumps(ROW | {"files": {"../x.py": ""}}), "a.jsonl", "line 2"),
        (json.dumps(ROW | {"reference": "print(1)"}), "a.jsonl", "its reference is refused"),
        (json.dumps(ROW | {"skill": "feedback"}), "a.jsonl", "needs the feedback"),
        (json.dumps(ROW | {"target": "gpu"}), "a.jsonl", "target"),
        (json.dumps(ROW | {"colour": 1}), "a.jsonl", "colour"),
        ("colour\n1\n", "a.csv", "No candidate has a column 'colour'"),
        ("name,files\na,{\n", "a.csv", "row 1, files"),
    ],
)
def test_a_bad_file_brings_in_nothing_and_says_why(desk: PageDesk, text: str, name: str, says: str) -> None:
    items, runs = Item.objects.count(), Run.objects.count()
    assert says in sent(desk, text, name)
    assert (Item.objects.count(), Run.objects.count()) == (items, runs)


def test_labels_as_csv_are_those_of_the_lines_and_no_formulas(desk: PageDesk) -> None:
    score(desk, desk.rita, comment="=1+1")
    other, place = desk.take(desk.raj)
    other.post(place, {"act": "skip", "reason": "too-long"})
    owner = desk.client(desk.world.owner)
    answer = owner.get(f"/review/projects/{desk.project.pk}/labels.csv")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    lines = [
        json.loads(line) for line in owner.get(f"/review/projects/{desk.project.pk}/labels.jsonl").content.decode().splitlines()
    ]
    assert [row["status"] for row in rows] == [line["status"] for line in lines]
    assert rows[0]["level_cuda_engineering"] == "5"
    assert rows[0]["comment"] == "'=1+1"
    assert "Rita" not in answer.content.decode()
    assert desk.client(desk.rita).get(f"/review/projects/{desk.project.pk}/labels.csv").status_code == 403


def test_the_trail_shows_old_and_new_and_reviewers_as_numbers(desk: PageDesk, sam: Any) -> None:  # noqa: F811
    item = disagree(desk)
    desk.client(sam).post(path_of(item), FINAL)
    change(desk.world.owner, desk.project, state="paused", guidelines="Look twice.", minutes=45)
    path = f"/review/projects/{desk.project.pk}/trail/"
    page = desk.client(desk.world.owner).get(path)
    well_formed(page.content.decode())
    text = text_of(page)
    for said in (
        "reviewer 1",
        "reviewer 2",
        "an adjudicator",
        "<del>open</del>",
        "<ins>paused</ins>",
        "<del>60</del>",
        "Ada Byron",
    ):
        assert said in text
    for act in ("submit", "settle"):  # who scores and who settles is a setting; who gave which label is not told
        for row in re.findall(rf"<tr>(?:(?!</tr>).)*<b>{act}</b>.*?</tr>", text, re.DOTALL):
            assert not re.search("Rita|Raj|Sam", row)
    assert "<ins>Sam Settler</ins>" in text
    assert desk.client(desk.rita).get(path).status_code == 403


def next_version(**words: str) -> Any:
    """kernels/2: as 1, with another text for level 5 of CUDA Engineering."""
    old = shipped()[0]
    dimensions = []
    for d in old.dimensions:
        levels = [
            lv.model_copy(update={"text": "Other."}) if (d.key, lv.level) == ("cuda_engineering", 5) else lv for lv in d.levels
        ]
        dimensions.append(d.model_copy(update={"levels": tuple(levels)}))
    return old.model_copy(update={"version": 2, "dimensions": tuple(dimensions)})


def test_a_version_touches_the_levels_whose_border_moved() -> None:
    old = shipped()[0]
    assert changed(old, old) == frozenset()
    assert changed(old, next_version()) == {("cuda_engineering", "4"), ("cuda_engineering", "5")}


def test_another_version_asks_again_for_the_labels_it_touches_and_for_no_other(desk: PageDesk) -> None:
    score(desk, desk.rita)  # CUDA Engineering 5
    score(desk, desk.rita, **{"level-cuda_engineering": "3"})
    [_, row] = ensure_rubrics([shipped()[0], next_version()])
    owner = desk.client(desk.world.owner)
    page = owner.get(f"/review/projects/{desk.project.pk}/data/")
    well_formed(page.content.decode())
    assert "cuda engineering: 4, 5" in text_of(page)
    answer = owner.post(f"/review/projects/{desk.project.pk}/data/rubric", {"rubric": row.pk}, follow=True)
    assert "1 label is touched" in text_of(answer)
    touched, other = Review.objects.order_by("pk")
    assert (touched.superseded, other.superseded) == (True, False)
    assert (touched.item.wanted, other.item.wanted) == (3, 2)
    assert str(touched.rubric) == "kernels/1"
    mine = f"/review/items/{touched.assignment_id}/"
    assert "changed what it rests on" in text_of(desk.client(desk.rita).get(mine))
    assert "a newer version" in text_of(
        owner.post(f"/review/projects/{desk.project.pk}/data/rubric", {"rubric": row.pk}, follow=True)
    )


def test_what_is_due_is_forgotten_and_the_labels_stay(desk: PageDesk) -> None:
    disagree(desk)
    change(desk.world.owner, desk.project, state="closed", guidelines="", minutes=60, keep_days=30)
    call_command("forget_reviews")
    assert Draft.objects.exists()
    Project.objects.update(closed_at=timezone.now() - timedelta(days=31))
    hourly.send(sender=None)  # as the sweeping process does
    assert not Draft.objects.exists()
    assert not Reviewer.objects.exists()
    assert not Assignment.objects.filter(user__isnull=False).exists()
    assert list(Review.objects.order_by("number").values_list("number", "user")) == [(1, None), (2, None)]
    assert not Change.objects.filter(act="submit", user__isnull=False).exists()
    owner = desk.client(desk.world.owner)
    for page in ("trail/", "disagreement/", "agreement/", "calibration/", "labels.csv", ""):
        assert owner.get(f"/review/projects/{desk.project.pk}/{page}").status_code == 200, page
    call_command("forget_reviews")
    assert Change.objects.filter(act="forget").count() == 1


def test_the_discussion_opens_after_the_scores_under_numbers(desk: PageDesk, sam: Any) -> None:  # noqa: F811
    client, place = desk.take(desk.rita)
    client.post(f"{place}remark", {"text": "too early"})
    assert not Remark.objects.exists()
    client.post(place, {**FORM, "act": "submit"})
    client.post(f"{place}remark", {"text": "Why <b>two</b>?"})
    client.post(f"{place}remark", {"text": "  "})
    item = Review.objects.get().item
    assert desk.client(sam).post(f"{path_of(item)}remark", {"text": "Look at line 9."}).status_code == 302
    page = client.get(place)
    well_formed(page.content.decode())
    assert "Why <b>two</b>?" in text_of(page)
    assert "&lt;b&gt;two" in page.content.decode()
    assert "adjudicator" in text_of(page)
    other, place = desk.take(desk.raj)
    assert Assignment.objects.get(pk=int(place.split("/")[3])).item == item
    assert "two" not in text_of(other.get(place)).partition("Discussion")[2]
    assert Remark.objects.count() == 2
