"""Who has seen what is hidden of an item gives no blind label of it: nobody is handed what they know, and no mark is evaded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connection

from stitchweb.review.access import blind_to, to_score
from stitchweb.review.calibration import raters
from stitchweb.review.models import Assignment, Item, Project, Review, Seen
from stitchweb.review.services.gold import add_gold
from stitchweb.review.services.labels import set_adjudicators
from stitchweb.review.services.projects import ProjectRefused, change, create_project, set_gold, set_reviewers
from stitchweb.review.services.queue import next_assignment, skip
from stitchweb.review.services.reviews import save_draft, submit
from stitchweb.teams.models import Role, User
from stitchweb.teams.services import create_user, set_role
from tests.conftest import World, build_world
from tests.stitchweb.review_world import Queue, make_queue
from tests.stitchweb.test_review_after import score
from tests.stitchweb.test_review_gold import answer
from tests.stitchweb.test_review_pages import FORM, PageDesk, text_of
from tests.stitchweb.test_review_queue import FULL, consistent, run_out, submitted, taken
from tests.stitchweb.world_for_tests import make_world

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk(db: None) -> PageDesk:
    return PageDesk(make_world())


@pytest.fixture
def queue(world: World) -> Queue:
    return make_queue(world)


def sam_of(desk: PageDesk) -> User:
    """An adjudicator who does not score."""
    sam = create_user("sam@example.org", name="Sam Settler")
    set_role(desk.world.team, sam, Role.REVIEWER)
    set_adjudicators(desk.world.owner, desk.project, [sam.pk])
    return sam


def twin(queue: Queue, world: World) -> Project:
    """Another project over the same contents, with the same people."""
    other = create_project(world.owner, world.team, queue.project.rubric, "Twin")
    set_reviewers(world.owner, other, [person.pk for person in queue.people])
    Item.objects.bulk_create(
        Item(project=other, run=i.run, candidate=i.candidate, sha256=i.sha256, skill=i.skill, why="all", rank=i.rank, wanted=2)
        for i in queue.items
    )
    return other


# ---------- labels that somebody has read ----------


@pytest.mark.parametrize("page", ["items/{item}/labels/", "items/{item}/labels/code", "disagreement/"])
def test_an_adjudicator_who_read_labels_is_not_handed_the_item_as_a_reviewer(desk: PageDesk, page: str) -> None:
    score(desk, desk.rita)
    item = Review.objects.get().item
    sam = sam_of(desk)
    other = next(i for i in desk.project.items.all() if i.pk != item.pk)
    path = f"/review/projects/{desk.project.pk}/{page.format(item=item.pk)}"
    assert desk.client(sam).get(path).status_code == 200
    set_reviewers(desk.world.owner, desk.project, [desk.rita.pk, sam.pk])
    offered = set(to_score(sam).filter(project=desk.project))
    assert item not in offered
    assert other in offered
    assert not blind_to(sam).filter(pk=item.pk).exists()
    assert blind_to(sam).filter(pk=other.pk).exists()


def test_a_page_without_labels_of_others_takes_nothing_from_a_queue(desk: PageDesk) -> None:
    sam, item = sam_of(desk), desk.project.items.first()
    assert item is not None
    assert desk.client(sam).get(f"/review/projects/{desk.project.pk}/items/{item.pk}/labels/").status_code == 200
    set_reviewers(desk.world.owner, desk.project, [desk.rita.pk, sam.pk])
    assert to_score(sam).filter(pk=item.pk).exists()
    assert not Seen.objects.exists()


@pytest.mark.parametrize("page", ["labels.jsonl", "labels.csv", "trail/", "agreement/"])
def test_who_read_all_labels_scores_only_what_had_none(desk: PageDesk, page: str) -> None:
    score(desk, desk.rita)
    item = Review.objects.get().item
    mae = create_user("mae@example.org", name="Mae")
    set_role(desk.world.team, mae, Role.MAINTAINER)
    client = desk.client(mae)
    for _ in range(2):
        assert client.get(f"/review/projects/{desk.project.pk}/{page}").status_code == 200
    assert Seen.objects.count() == 1
    set_reviewers(desk.world.owner, desk.project, [desk.rita.pk, mae.pk])
    offered = set(to_score(mae).filter(project=desk.project))
    assert offered == set(desk.project.items.exclude(pk=item.pk))


def test_what_ran_out_does_not_come_back_once_its_labels_were_read(desk: PageDesk) -> None:
    _, place = desk.take(desk.rita)
    row = Assignment.objects.get(pk=int(place.split("/")[3]))
    run_out(row)
    peer, theirs = desk.take(desk.raj)
    assert Assignment.objects.get(pk=int(theirs.split("/")[3])).item == row.item
    peer.post(theirs, {**FORM, "act": "submit"})
    set_role(desk.world.team, desk.rita, Role.MAINTAINER)
    set_reviewers(desk.world.owner, desk.project, [desk.raj.pk])
    path = f"/review/projects/{desk.project.pk}/items/{row.item_id}/labels/"
    assert desk.client(desk.rita).get(path).status_code == 200
    set_reviewers(desk.world.owner, desk.project, [desk.rita.pk, desk.raj.pk])
    found = next_assignment(desk.rita, desk.project)
    assert found is not None
    assert found.item != row.item
    Assignment.objects.filter(pk=found.pk).delete()
    submit_as(desk, desk.rita, row)
    assert not Review.objects.get(user=desk.rita).blind


def submit_as(desk: PageDesk, user: User, row: Assignment) -> None:
    save_draft(user, row.pk, FULL)
    submit(user, row.pk, {})


def test_who_was_off_the_reviewers_for_a_time_gives_no_blind_label_of_what_was_there(world: World, queue: Queue) -> None:
    a, b, c = queue.people
    set_reviewers(world.owner, queue.project, [b.pk, c.pk])  # now every page of the run is open to a
    set_reviewers(world.owner, queue.project, [a.pk, b.pk, c.pk])
    assert not submitted(a, queue).blind
    assert submitted(b, queue).blind


def test_an_item_whose_labels_were_all_in_is_not_blind_when_it_wants_one_more(world: World) -> None:
    queue = make_queue(world, people=3, items=2)
    a, b, c = queue.people
    for person in (a, b):
        submitted(person, queue)
    full = Item.objects.get(taken=2)
    set_gold(world.owner, queue.project, full.pk, True)  # now c is asked too, to whom the page of its run was open
    again = submitted(c, queue)
    assert (again.item, again.blind) == (full, False)
    assert submitted(c, queue).blind


# ---------- the same candidate in two projects ----------


def test_a_content_is_handed_to_a_person_by_one_project_only(world: World, queue: Queue) -> None:
    other, (a, b, _) = twin(queue, world), queue.people
    first = submitted(a, queue)
    held = taken(a, queue)
    seen = {first.item.sha256, held.item.sha256}
    offered = set(to_score(a).filter(project=other).values_list("sha256", flat=True))
    assert offered == {i.sha256 for i in queue.items} - seen
    assert seen <= set(to_score(b).filter(project=other).values_list("sha256", flat=True))
    found = next_assignment(a, other)
    assert found is not None
    assert found.item.sha256 not in seen
    assert set(blind_to(a).filter(project=other).values_list("sha256", flat=True)) == offered


@pytest.mark.django_db(transaction=True)
def test_two_projects_asked_at_once_hand_a_person_two_contents() -> None:
    world = build_world()
    queue = make_queue(world, people=1, items=2)
    projects, person, start = [queue.project, twin(queue, world)], queue.people[0], Barrier(2)

    def ask(project: Project) -> str:
        try:
            start.wait(30)
            found = next_assignment(person, project)
            assert found is not None
            return found.item.sha256
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(ask, projects))) == 2


# ---------- gold cannot be passed over ----------


def test_skipping_gold_is_no_way_round_the_pass_mark(desk: PageDesk) -> None:
    owner = desk.world.owner
    add_gold(owner, desk.project)
    change(owner, desk.project, state="open", guidelines="", minutes=60, pass_mark=60)
    for _ in range(10):
        row = next_assignment(desk.raj, desk.project)
        assert row is not None
        assert row.item.gold
        skip(desk.raj, row.pk, "too-long")
    page = text_of(desk.client(desk.raj).post(f"/review/projects/{desk.project.pk}/next", follow=True))
    assert "10 of them without any because you did not score them" in page
    assert "asks for 60 %" in page
    desk.project.refresh_from_db()
    raj = next(r for r in raters(desk.project) if r.number == 2)
    assert (raj.gold, raj.passed) == (0.0, False)
    desk.client(owner).post(f"/review/projects/{desk.project.pk}/calibration/2/clear", {"cleared": "1"})
    assert next_assignment(desk.raj, desk.project) is not None


def test_an_ordinary_item_that_ran_out_is_no_way_round_it_either(desk: PageDesk) -> None:
    _, place = desk.take(desk.raj)
    row = Assignment.objects.get(pk=int(place.split("/")[3]))
    add_gold(desk.world.owner, desk.project)
    change(desk.world.owner, desk.project, state="open", guidelines="", minutes=60, pass_mark=60)
    run_out(row)
    found: Any = next_assignment(desk.raj, desk.project)
    assert found.item.gold


def test_gold_that_was_scored_in_another_project_counts_here_and_does_not_come_again(desk: PageDesk) -> None:
    owner = desk.world.owner
    set_reviewers(owner, desk.project, [desk.rita.pk, desk.raj.pk])
    add_gold(owner, desk.project)
    answer(desk, desk.rita, right=True)
    answer(desk, desk.raj, right=False)
    other = create_project(owner, desk.world.team, desk.project.rubric, "Second")
    set_reviewers(owner, other, [desk.raj.pk, desk.rita.pk])
    add_gold(owner, other)
    change(owner, other, state="open", guidelines="", minutes=60, pass_mark=60)
    assert not to_score(desk.rita).filter(project=other, gold=True).exists()
    other.refresh_from_db()
    told = {r.number: r for r in raters(other)}
    numbers = dict(other.reviewers.values_list("user", "number"))
    assert told[numbers[desk.rita.pk]].passed is True
    assert told[numbers[desk.raj.pk]].passed is False
    assert Assignment.objects.filter(item__project=other).count() == 0
    assert consistent(other)


# ---------- two who set the people ----------


@pytest.mark.parametrize("act", ["people", "adjudicators"])
def test_people_set_from_an_older_page_do_not_undo_what_another_one_set(desk: PageDesk, act: str) -> None:
    owner, path = desk.client(desk.world.owner), f"/review/projects/{desk.project.pk}/"
    name = "seen_people" if act == "people" else "seen_adjudicators"
    seen = owner.get(path).context[name]
    assert owner.post(f"{path}{act}", {"user": [desk.rita.pk], "seen": seen}).status_code == 302
    stale = owner.post(f"{path}{act}", {"user": [desk.raj.pk], "seen": seen}, follow=True)
    assert "Somebody else changed the" in text_of(stale)
    rows = desk.project.reviewers.filter(left_at=None) if act == "people" else desk.project.adjudicators
    assert list(rows.values_list("user", flat=True)) == [desk.rita.pk]
    fresh = owner.get(path).context[name]
    assert owner.post(f"{path}{act}", {"user": [desk.raj.pk], "seen": fresh}, follow=True).status_code == 200
    assert list(rows.values_list("user", flat=True)) == [desk.raj.pk]


def test_the_set_of_people_is_checked_by_the_service(world: World, queue: Queue) -> None:
    with pytest.raises(ProjectRefused, match="Somebody else changed the reviewers"):
        set_reviewers(world.owner, queue.project, [], seen=0)
