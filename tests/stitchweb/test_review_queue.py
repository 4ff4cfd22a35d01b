"""The queue gives each item exactly as many labels as are wanted, whoever asks at once, and nothing gets stuck in it."""

from __future__ import annotations

import hashlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from stitchweb.review.content import Content, Lines, Score
from stitchweb.review.models import Assignment, Draft, Held, Item, Project, Review
from stitchweb.review.services.projects import ProjectRefused, set_gold, set_reviewers
from stitchweb.review.services.queue import QueueRefused, next_assignment, skip
from stitchweb.review.services.reviews import NotComplete, content_of, save_draft, submit, undo
from stitchweb.runs.models import Control
from stitchweb.teams.models import User
from tests.conftest import World, build_world
from tests.stitchweb.review_world import Queue, make_queue

FULL = Content(
    scores={k: Score(level=4) for k in ("anti_hacking", "cuda_engineering", "operator_coverage", "skill_compliance")},
    hack_level="none",
)


@pytest.fixture
def queue(world: World) -> Queue:
    return make_queue(world)


def taken(user: User, queue: Queue) -> Assignment:
    found = next_assignment(user, queue.project)
    assert found is not None
    return found


def submitted(user: User, queue: Queue, content: Content = FULL) -> Review:
    row = taken(user, queue)
    save_draft(user, row.pk, content)
    return submit(user, row.pk, {})


def run_out(row: Assignment) -> None:
    Assignment.objects.filter(pk=row.pk).update(expires_at=timezone.now() - timedelta(seconds=1))


def consistent(project: Project) -> bool:
    """Whether each item counts exactly the slots that are in use."""
    return all(
        item.taken == item.assignments.filter(slot__isnull=False).count() <= item.wanted
        for item in Item.objects.filter(project=project)
    )


def test_an_item_is_handed_out_as_often_as_labels_are_wanted_and_to_nobody_twice(queue: Queue) -> None:
    a, b, c = queue.people
    for user in (a, b):
        assert [submitted(user, queue).item_id for _ in range(4)] == [i.pk for i in queue.items]
    assert next_assignment(c, queue.project) is None
    assert next_assignment(a, queue.project) is None
    assert consistent(queue.project)


def test_asking_again_gives_the_item_one_holds(queue: Queue) -> None:
    assert taken(queue.people[0], queue) == taken(queue.people[0], queue)
    assert Assignment.objects.count() == 1


def minutes_left(row: Assignment) -> float:
    return (Assignment.objects.get(pk=row.pk).expires_at - timezone.now()).total_seconds() / 60


def test_an_item_made_ready_is_held_for_two_minutes_and_for_the_whole_time_once_somebody_comes(queue: Queue) -> None:
    a, b, c = queue.people
    ready = next_assignment(a, queue.project, ahead=True)
    assert ready is not None
    assert 1 < minutes_left(ready) <= 2
    assert next_assignment(a, queue.project, ahead=True) == ready
    assert minutes_left(ready) <= 2  # making it ready again holds it no longer
    assert taken(a, queue) == ready
    assert minutes_left(ready) > 59
    # It is a reservation as any other: with it, all labels of the item are spoken for.
    assert taken(b, queue).item == ready.item
    assert taken(c, queue).item != ready.item
    assert consistent(queue.project)


def test_what_was_made_ready_and_not_come_for_is_free_again_and_comes_back_while_there_is_room(queue: Queue) -> None:
    a, b, c = queue.people
    ready = next_assignment(a, queue.project, ahead=True)
    assert ready is not None
    run_out(ready)
    assert [submitted(user, queue).item_id for user in (b, c)] == [ready.item_id] * 2
    assert taken(a, queue).item_id != ready.item_id
    assert consistent(queue.project)
    Project.objects.update(state="paused")
    with pytest.raises(QueueRefused):
        next_assignment(queue.people[1], queue.project, ahead=True)


def test_nobody_reviews_a_run_that_they_own_or_steered(world: World, queue: Queue) -> None:
    a, b, c = queue.people
    queue.run.owner = a
    queue.run.save()
    Control.objects.create(run=queue.run, kind="candidate", user=b)
    assert next_assignment(a, queue.project) is None
    assert next_assignment(b, queue.project) is None
    assert next_assignment(c, queue.project) is not None


def test_who_does_not_score_here_gets_nothing(world: World, queue: Queue) -> None:
    with pytest.raises(QueueRefused, match="do not score"):
        next_assignment(world.expert, queue.project)


def test_a_reservation_that_runs_out_frees_its_slot_and_keeps_the_draft(queue: Queue) -> None:
    a, b, c = queue.people
    row = taken(a, queue)
    save_draft(a, row.pk, Content(comment="half a thought"))
    run_out(row)
    assert taken(b, queue).item_id == row.item_id
    row.refresh_from_db()
    assert (row.state, row.slot) == (Held.EXPIRED, None)
    assert taken(a, queue) == row  # there is room for two: the draft goes on
    assert content_of(taken(a, queue)).comment == "half a thought"
    assert taken(c, queue).item_id != row.item_id
    assert consistent(queue.project)


def test_a_draft_whose_item_is_full_is_kept_and_cannot_be_submitted(queue: Queue) -> None:
    a, b, c = queue.people
    row = taken(a, queue)
    run_out(row)
    assert {taken(b, queue).item_id, taken(c, queue).item_id} == {row.item_id}
    save_draft(a, row.pk, FULL)
    with pytest.raises(QueueRefused, match="ran out"):
        submit(a, row.pk, {})
    assert Draft.objects.get(assignment=row).content["hack_level"] == "none"
    assert taken(a, queue).item_id != row.item_id
    assert consistent(queue.project)


def test_a_saved_draft_renews_the_reservation(queue: Queue) -> None:
    row = taken(queue.people[0], queue)
    run_out(row)
    assert save_draft(queue.people[0], row.pk, FULL).expires_at > timezone.now() + timedelta(minutes=50)


def test_skipping_needs_a_reason_frees_the_slot_and_never_comes_back(queue: Queue) -> None:
    a = queue.people[0]
    row = taken(a, queue)
    with pytest.raises(QueueRefused, match="Say why"):
        skip(a, row.pk, "")
    skip(a, row.pk, "not-my-field", "cuDNN internals")
    row.refresh_from_db()
    assert (row.state, row.skip_reason, row.skip_note) == ("skipped", "not-my-field", "cuDNN internals")
    assert taken(a, queue).item_id != row.item_id
    with pytest.raises(QueueRefused, match="skipped"):
        save_draft(a, row.pk, FULL)
    assert consistent(queue.project)


def test_somebody_elses_assignment_is_not_touched(queue: Queue) -> None:
    a, b, _ = queue.people
    row = taken(a, queue)
    for act in (lambda: skip(b, row.pk, "other"), lambda: save_draft(b, row.pk, FULL), lambda: submit(b, row.pk, {})):
        with pytest.raises(QueueRefused, match="not in your queue"):
            act()


def test_the_database_itself_refuses_a_slot_too_many(queue: Queue) -> None:
    a, b, c = queue.people
    row = taken(a, queue)
    now = timezone.now()
    with pytest.raises(IntegrityError), transaction.atomic():
        Assignment.objects.create(item=row.item, user=b, slot=row.slot, expires_at=now)
    with pytest.raises(IntegrityError), transaction.atomic():
        Item.objects.filter(pk=row.item_id).update(taken=3)
    with pytest.raises(IntegrityError), transaction.atomic():
        Assignment.objects.create(item=row.item, user=c, slot=None, expires_at=now)


def test_undo_goes_back_draft_by_draft_and_loses_none(queue: Queue) -> None:
    a = queue.people[0]
    row = taken(a, queue)
    for text in ("one", "two", "two", "three"):
        save_draft(a, row.pk, Content(comment=text))
    assert [undo(a, row.pk).comment for _ in range(2)] == ["two", "one"]  # type: ignore[union-attr]
    save_draft(a, row.pk, Content(comment="other"))
    assert undo(a, row.pk).comment == "one"  # type: ignore[union-attr]
    assert undo(a, row.pk) == Content()
    assert undo(a, row.pk) is None
    assert [d.content["comment"] for d in Draft.objects.all()] == ["one", "two", "three", "other"]


def test_two_devices_of_one_person_lose_nothing_and_are_told(queue: Queue) -> None:
    a = queue.people[0]
    row = taken(a, queue)
    first = save_draft(a, row.pk, Content(comment="desk"))
    phone = save_draft(a, row.pk, Content(comment="phone"), based_on=first.draft)
    desk = save_draft(a, row.pk, Content(comment="desk again"), based_on=first.draft)
    assert (first.overtaken, phone.overtaken, desk.overtaken) == (False, False, True)
    assert undo(a, row.pk).comment == "phone"  # type: ignore[union-attr]


def test_active_time_grows_no_faster_than_the_clock(queue: Queue) -> None:
    a = queue.people[0]
    row = taken(a, queue)
    Assignment.objects.filter(pk=row.pk).update(seen_at=timezone.now() - timedelta(seconds=30))
    save_draft(a, row.pk, FULL, active_s=20)
    save_draft(a, row.pk, Content(), active_s=9999)
    save_draft(a, row.pk, FULL, active_s=-50)
    row.refresh_from_db()
    assert 20 <= row.active_s < 25


def test_a_review_that_is_sent_twice_is_one_review(queue: Queue) -> None:
    a = queue.people[0]
    review = submitted(a, queue)
    assert submit(a, review.assignment_id, {}) == review
    with pytest.raises(QueueRefused, match="submitted"):
        save_draft(a, review.assignment_id, Content())
    assert {r.dimension: r.level for r in review.ratings.all()} == {k: s.level for k, s in FULL.scores.items()}


def changed(**update: object) -> Content:
    return FULL.model_copy(update=update)


def scored(**levels: Score) -> Content:
    return FULL.model_copy(update={"scores": FULL.scores | levels})


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (Content(), "CUDA Engineering has no level yet"),
        (scored(cuda_engineering=Score(level=5)), "level 5 needs marked lines or a sentence"),
        (scored(skill_compliance=Score(level=0)), "why you cannot tell"),
        (changed(hack_level=""), "The hack level is open"),
        (changed(hack_level="minor"), "names its kind"),
        (changed(hack_types=("side_stream",)), "Remove the kind"),
        (scored(anti_hacking=Score(level=1, reason="remembers")), "then the hack level is major"),
        (changed(hack_level="major", hack_types=("output_cache",)), "contradict each other"),
        (changed(marks=(Lines(dimension="anti_hacking", side="candidate", file="a.py", first=3, last=9),)), "is not there"),
    ],
)
def test_what_is_missing_is_said_and_nothing_is_stored(queue: Queue, content: Content, says: str) -> None:
    a = queue.people[0]
    row = taken(a, queue)
    save_draft(a, row.pk, content)
    with pytest.raises(NotComplete, match=says):
        submit(a, row.pk, {"candidate": {"a.py": "1\n2\n3\n4\n5\n"}})
    assert not Review.objects.exists()


def test_marked_lines_are_kept_with_the_digest_of_their_text(queue: Queue) -> None:
    a = queue.people[0]
    row = taken(a, queue)
    lines = Lines(dimension="cuda_engineering", side="candidate", file="k.cu", first=2, last=3)
    save_draft(a, row.pk, scored(cuda_engineering=Score(level=5)).model_copy(update={"marks": (lines,)}))
    one = submit(a, row.pk, {"candidate": {"k.cu": "a\nb\nc\nd\n"}}).marks.get()
    assert (one.file, one.first, one.last) == ("k.cu", 2, 3)
    assert one.text_sha256 == hashlib.sha256(b"b\nc").hexdigest()


def test_a_gold_item_comes_first_and_to_everybody(world: World, queue: Queue) -> None:
    last = queue.items[-1]
    set_gold(world.owner, queue.project, last.pk, True)
    assert {submitted(user, queue).item_id for user in queue.people} == {last.pk}
    assert consistent(queue.project)


def test_only_people_who_may_score_in_the_team_become_reviewers(world: World, queue: Queue) -> None:
    with pytest.raises(ProjectRefused, match="reviewer of the team first"):
        set_reviewers(world.owner, queue.project, [world.viewer.pk])


def test_who_leaves_gives_back_what_they_hold_and_keeps_their_number(world: World, queue: Queue) -> None:
    a, b, _ = queue.people
    row = taken(a, queue)
    set_reviewers(world.owner, queue.project, [b.pk])
    row.refresh_from_db()
    assert row.state == Held.EXPIRED
    with pytest.raises(QueueRefused):
        next_assignment(a, queue.project)
    set_reviewers(world.owner, queue.project, [a.pk, b.pk])
    assert queue.project.reviewers.get(user=a).number == 1
    assert consistent(queue.project)


def test_taking_an_item_costs_the_same_with_many_items(world: World) -> None:
    counts = []
    for people, items in ((1, 2), (2, 400)):
        queue = make_queue(world, people=people, items=items)
        with CaptureQueriesContext(connection) as queries:
            taken(queue.people[-1], queue)
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 14


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("people", "items"), [(12, 30), pytest.param(50, 200, marks=pytest.mark.slow)])
def test_reviewers_at_once_give_each_item_exactly_two_labels(people: int, items: int) -> None:
    queue = make_queue(build_world(), people=people, items=items)
    start = Barrier(people)

    def work(user: User) -> list[int]:
        seen: list[int] = []
        try:
            start.wait(60)
            while (row := next_assignment(user, queue.project)) is not None:
                seen.append(row.item_id)
                save_draft(user, row.pk, FULL)
                submit(user, row.pk, {})
                next_assignment(user, queue.project, ahead=True)  # as the page does while the reveal is read
            return seen
        finally:
            connection.close()

    with ThreadPoolExecutor(people) as pool:
        shown = list(pool.map(work, queue.people))
    assert all(len(set(seen)) == len(seen) for seen in shown)
    assert Counter(item for seen in shown for item in seen) == {item.pk: 2 for item in queue.items}
    assert Review.objects.count() == 2 * items
    assert not Assignment.objects.exclude(state=Held.SUBMITTED).exists()
    assert consistent(queue.project)
