"""Ways into a review that once held, each closed: what was open is not called blind, no label gets lost, nothing queues up."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import QueryDict
from django.test import Client

from stitchweb.programs.services import Upload, create_program
from stitchweb.review.content import read_form
from stitchweb.review.models import Adjudication, Assignment, Change, Hunch, Item, Review, Revised
from stitchweb.review.services.gold import add_gold
from stitchweb.review.services.labels import set_adjudicators
from stitchweb.review.services.projects import Filters, change, create_project, fill, set_gold, set_reviewers
from stitchweb.review.services.queue import next_assignment
from stitchweb.review.services.retention import forget
from stitchweb.runs.history import view_of
from stitchweb.runs.models import Job, JobState
from stitchweb.teams.models import Role
from stitchweb.teams.services import set_role
from tests.conftest import World
from tests.stitchweb.markup import well_formed
from tests.stitchweb.parts_for_tests import REFERENCE
from tests.stitchweb.review_world import make_queue
from tests.stitchweb.test_review_hunches import texts
from tests.stitchweb.test_review_pages import FORM, PageDesk, text_of, told_as
from tests.stitchweb.test_review_queue import run_out, submitted, taken
from tests.stitchweb.world_for_tests import make_world

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk(db: None) -> PageDesk:
    return PageDesk(make_world())


def settings(state: str = "open", **changes: str) -> dict[str, str]:
    return {"state": state, "minutes": "60", "guidelines": "", "pass_mark": "0", "keep_days": ""} | changes


def item_of(place: str) -> Item:
    return Assignment.objects.get(pk=int(place.split("/")[3])).item


# ---------- what was open is not called blind ----------


@pytest.mark.parametrize("opens_again", [False, True])
def test_a_label_given_after_the_project_was_closed_is_not_called_blind(desk: PageDesk, opens_again: bool) -> None:
    client, place = desk.take(desk.rita)
    path = f"/review/projects/{desk.project.pk}/change"
    owner = desk.client(desk.world.owner)
    owner.post(path, settings("closed"))
    assert client.get(f"/runs/{item_of(place).run_id}/").status_code == 200  # verdicts and authors, for everybody
    if opens_again:
        owner.post(path, settings("open"))
    assert client.post(place, {**FORM, "act": "submit"}).status_code == 302
    assert not Review.objects.get().blind


def twin_project(desk: PageDesk) -> Any:
    """Another project over the same candidates, in which rita alone scores."""
    other = create_project(desk.world.owner, desk.world.team, desk.project.rubric, "Twin")
    set_reviewers(desk.world.owner, other, [desk.rita.pk])
    fill(desk.world.owner, other, Filters())
    return other


def test_labels_of_a_candidate_are_closed_to_who_may_still_score_it_in_another_project(desk: PageDesk) -> None:
    other = twin_project(desk)
    set_reviewers(desk.world.owner, desk.project, [desk.raj.pk])
    set_role(desk.world.team, desk.rita, Role.MAINTAINER)
    set_adjudicators(desk.world.owner, desk.project, [desk.rita.pk])
    peer, place = desk.take(desk.raj)
    peer.post(place, {**FORM, "hack_level": "unsure", "comment": "ZEBRA of a peer", "act": "submit"})
    Item.objects.update(wanted=1)
    item = item_of(place)
    Adjudication.objects.create(
        item=item, user=desk.world.owner, rubric=desk.project.rubric, levels={}, hack_level="major", reason="ZEBRA settled"
    )
    rita, here = desk.client(desk.rita), f"/review/projects/{desk.project.pk}/"
    for path in (
        f"items/{item.pk}/labels/",
        f"items/{item.pk}/labels/code",
        "labels.jsonl",
        "labels.csv",
        "trail/",
        "agreement/",
    ):
        answer = rita.get(f"{here}{path}")
        assert (path, answer.status_code) == (path, 403)
        assert "ZEBRA" not in text_of(answer)
    assert f"items/{item.pk}/labels" not in text_of(rita.get(f"{here}disagreement/"))
    set_reviewers(desk.world.owner, other, [])
    assert "ZEBRA" in text_of(rita.get(f"{here}items/{item.pk}/labels/"))


def test_a_program_with_the_same_text_is_closed_too_unless_it_is_ones_own(desk: PageDesk) -> None:
    """The same engineer writes the same candidate for it, and its page tells the verdict."""
    client, place = desk.take(desk.rita)
    text = item_of(place).run.revision.text
    revision = create_program(desk.world.owner, desk.world.team, Upload(text, "again.py"))
    run = told_as(
        replace(desk.world, revision=revision), verdict="verified", says="ZEBRA", labels=[], hack=None, engineer="offline",
        owner=desk.world.owner,
    )  # fmt: skip
    for path in (f"/runs/{run.pk}/", f"/programs/{revision.program_id}/"):
        answer = client.get(path)
        assert (path, answer.status_code) == (path, 403)
        assert "You score" in text_of(answer)
    assert "again" not in text_of(client.get("/"))
    revision.program.created_by = desk.rita
    revision.program.save()
    assert client.get(f"/runs/{run.pk}/").status_code == 200


def test_what_answers_feedback_comes_after_what_the_feedback_was_about(desk: PageDesk) -> None:
    """The page of the one tells how the other did: "The kernel does not compile"."""
    ranks = dict(desk.project.items.values_list("candidate", "rank"))
    candidates = view_of(desk.project.items.first().run_id).candidates
    after = [(cid, candidates[cid].parent) for cid in ranks if candidates[cid].parent in ranks]
    assert after
    assert all(ranks[parent] < ranks[cid] < 1 for cid, parent in after)


def test_who_manages_and_scores_sees_how_others_did_on_gold_after_it(desk: PageDesk) -> None:
    add_gold(desk.world.owner, desk.project)
    peer, place = desk.take(desk.raj)
    peer.post(place, {**FORM, "act": "submit"})
    set_role(desk.world.team, desk.rita, Role.MAINTAINER)
    rita, path = desk.client(desk.rita), f"/review/projects/{desk.project.pk}/calibration/"
    page = rita.get(path)
    well_formed(page.content.decode())
    assert "reviewer 1" in text_of(page)
    assert "reviewer 2" not in text_of(page)
    while item_of(place := rita.post(f"/review/projects/{desk.project.pk}/next").url).gold:
        rita.post(place, {**FORM, "act": "submit"})
    assert "reviewer 2" in text_of(rita.get(path))


# ---------- as many labels as are wanted ----------


def test_an_item_that_was_opened_and_left_comes_back_when_there_is_room(world: World) -> None:
    """With as many people as labels, nobody else could give the one that is missing."""
    queue = make_queue(world, people=2, items=1)
    a, b = queue.people
    row = taken(a, queue)
    run_out(row)
    submitted(b, queue)
    client = Client()
    client.force_login(a)
    page = text_of(client.get("/review/"))
    assert "nothing left for you" not in page
    assert "1 left for you" in page
    assert next_assignment(a, queue.project) == row


def test_a_gold_item_comes_to_everybody_also_when_who_scored_it_has_left(world: World) -> None:
    queue = make_queue(world, people=3, items=2)
    a, b, c = queue.people
    gold = queue.items[-1]
    set_gold(world.owner, queue.project, gold.pk, True)
    submitted(a, queue)
    set_reviewers(world.owner, queue.project, [b.pk, c.pk])
    assert [submitted(person, queue).item_id for person in (b, c)] == [gold.pk, gold.pk]


# ---------- what is forgotten ----------


def test_a_number_whose_person_is_forgotten_goes_to_nobody_else(world: World) -> None:
    queue = make_queue(world, people=2, items=2)
    a, b = queue.people
    first = submitted(a, queue)
    change(world.owner, queue.project, state="closed", guidelines="", minutes=60, keep_days=0)
    forget(queue.project)
    change(world.owner, queue.project, state="open", guidelines="", minutes=60)
    set_reviewers(world.owner, queue.project, [b.pk])
    assert submitted(b, queue).number != first.number


def test_the_trail_does_not_tell_who_had_which_number_once_that_is_forgotten(world: World) -> None:
    queue = make_queue(world, people=2, items=1)
    set_adjudicators(world.owner, queue.project, [world.expert.pk])
    Change.objects.create(project=queue.project, user=world.expert, act="settle")
    assert Change.objects.get(act="reviewers").new == {"people": sorted(p.pk for p in queue.people)}
    change(world.owner, queue.project, state="closed", guidelines="", minutes=60, keep_days=0)
    forget(queue.project)
    assert Change.objects.get(act="reviewers").new == {"people": 2}
    assert Change.objects.get(act="adjudicators").new == {"people": 1}
    assert Change.objects.get(act="settle").user is None


# ---------- hunches ----------


@pytest.mark.parametrize("leaves", ["skip", "submit"])
def test_one_person_has_one_hunch_under_way_whatever_they_do_with_the_item(desk: PageDesk, leaves: str) -> None:
    client, place = desk.take(desk.rita)
    assert client.post(f"{place}hunch/", texts(client, place)).status_code == 302
    client.post(place, {**FORM, "act": leaves, "reason": "other"})
    _, other = desk.take(desk.rita)
    assert other != place
    answer = client.post(f"{other}hunch/", texts(client, other))
    assert answer.status_code == 409
    assert "one thing at a time" in text_of(answer)
    assert Job.objects.filter(kind="check").count() == Hunch.objects.count() == 1
    Job.objects.filter(kind="check").update(state=JobState.DONE)
    assert client.post(f"{other}hunch/", texts(client, other)).status_code == 302


def test_a_refused_hunch_keeps_what_one_expected(desk: PageDesk) -> None:
    client, place = desk.take(desk.rita)
    sent = texts(client, place) | {"text-reference.py": "print(1)", "note": "It remembers <the> address"}
    answer = client.post(f"{place}hunch/", sent)
    assert answer.status_code == 409
    assert 'value="It remembers <the> address"' in text_of(answer)


# ---------- what was typed ----------


def test_another_revision_is_not_called_kept_and_its_words_are_given_back(desk: PageDesk) -> None:
    client, place = desk.take(desk.rita)
    client.post(place, {**FORM, "act": "submit"})
    first = {**FORM, "reason": "The first words."}
    for _ in range(2):  # sent twice
        assert "Kept beside your first label" in text_of(client.post(f"{place}revise", first, follow=True))
    page = text_of(client.post(f"{place}revise", {**FORM, "reason": "Other words, in another tab."}, follow=True))
    assert "Kept beside your first label" not in page
    assert "This was not kept: Other words, in another tab." in page
    assert Revised.objects.get().reason == "The first words."


def test_settings_that_are_refused_keep_the_guidelines_one_wrote(desk: PageDesk) -> None:
    owner, path = desk.client(desk.world.owner), f"/review/projects/{desk.project.pk}/"
    answer = owner.post(f"{path}change", settings(guidelines="Long <words>", minutes="3", keep_days="ten"))
    assert answer.status_code == 422
    well_formed(answer.content.decode())
    page = text_of(answer)
    assert "Minutes: " in page
    assert "Long <words></textarea>" in page
    assert 'value="ten"' in page


def test_settings_from_an_older_page_do_not_undo_what_another_one_saved(desk: PageDesk) -> None:
    owner, path = desk.client(desk.world.owner), f"/review/projects/{desk.project.pk}/"
    seen = str(owner.get(path).context["seen"])
    assert owner.post(f"{path}change", settings(guidelines="Of the first tab", seen=seen)).status_code == 302
    stale = owner.post(f"{path}change", settings("paused", guidelines="Of the second tab", seen=seen))
    assert stale.status_code == 409
    assert "Somebody changed the settings while you wrote" in text_of(stale)
    assert "Of the second tab</textarea>" in text_of(stale)
    desk.project.refresh_from_db()
    assert (desk.project.state, desk.project.guidelines) == ("open", "Of the first tab")
    again = settings("paused", guidelines="Of both", seen=str(stale.context["seen"]))
    assert owner.post(f"{path}change", again).status_code == 302
    desk.project.refresh_from_db()
    assert desk.project.guidelines == "Of both"


# ---------- files ----------

ROW = {"name": "n", "reference": REFERENCE, "files": {"model_new.py": "class ModelNew:\n    pass\n"}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (json.dumps(ROW | {"task": "one\u2028two\x85three"}, ensure_ascii=False), "1 of 1 came"),
        (json.dumps(ROW) + "\r\n\r\n", "1 of 1 came"),
        ("[" * 100_000, "JSON within JSON"),
        (json.dumps(ROW | {"reference": "x = '\ud800'"}), "half a character"),
    ],
)
def test_a_file_of_odd_lines_comes_in_or_is_refused_with_a_sentence(desk: PageDesk, text: str, says: str) -> None:
    file = SimpleUploadedFile("some.jsonl", text.encode())
    path = f"/review/projects/{desk.project.pk}/data/import"
    assert says in text_of(desk.client(desk.world.owner).post(path, {"file": file}, follow=True))


def test_a_program_number_that_no_database_holds_is_refused(desk: PageDesk) -> None:
    sent = {"program": "9" * 25, "share": "100", "most": "5"}
    answer = desk.client(desk.world.owner).post(f"/review/projects/{desk.project.pk}/fill", sent, follow=True)
    assert "Program:" in text_of(answer)


def test_every_mark_is_kept_however_many(desk: PageDesk) -> None:
    """A form of more than a thousand fields is refused by the site as a whole, which says so."""
    words = [f"anti_hacking|candidate|{line}|{line}|kernels/run.cpp" for line in range(1, 201)]
    data = QueryDict(mutable=True)
    data.setlist("mark", words)
    assert len(read_form(data, desk.project.rubric.parsed).marks) == len(words)
