"""Queues put first what a judge and labels lie apart on, then what it is unsure of; a random share stays."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import pytest

from stitchweb.datasets.services.judging import randomly_chosen
from stitchweb.datasets.services.scoring import ORDER_QUEUES
from stitchweb.review import judge as place_of_judge
from stitchweb.review.judge import JudgeScore
from stitchweb.review.models import Assignment, Held, Item, Placed, Rating, Review
from stitchweb.review.services.ordering import interest, order_queue, order_queues
from stitchweb.review.services.projects import Filters, fill
from stitchweb.review.services.queue import next_assignment
from stitchweb.teams.models import Team
from tests.conftest import World
from tests.stitchweb.conveyor import Conveyor
from tests.stitchweb.judged_world import active_judge
from tests.stitchweb.review_world import Queue, make_queue
from tests.stitchweb.test_review_pages import FORM, PageDesk, text_of
from tests.stitchweb.world_for_tests import make_world

pytestmark = pytest.mark.django_db


class Told:
    """Says what the test gives it; nothing of what it has not scored."""

    name, tells = "zebra judge 7", False

    def __init__(self) -> None:
        self.said: dict[str, JudgeScore] = {}

    def scores(self, team: Team, contents: Collection[str]) -> Mapping[str, JudgeScore]:
        return {sha: self.said[sha] for sha in contents if sha in self.said}


def score(level: int = 3, apart: int = 0, doubt: float = 0.1) -> JudgeScore:
    return JudgeScore({"anti_hacking": level, "cuda_engineering": level}, "none", "ZEBRA", apart, doubt)


@pytest.fixture
def told() -> Iterator[Told]:
    judge = Told()
    place_of_judge.use(judge)
    yield judge
    place_of_judge.use(None)


def order_of(queue: Queue) -> list[str]:
    return list(Item.objects.filter(project=queue.project).values_list("candidate", flat=True))


def label(queue: Queue, item: Item, level: int) -> None:
    row = Assignment.objects.create(
        item=item, user=queue.people[2], state=Held.SUBMITTED, slot=0, expires_at=item.created_at, ended_at=item.created_at
    )
    review = Review.objects.create(
        assignment=row, item=item, user=queue.people[2], rubric=queue.project.rubric, hack_level="none", number=3, active_s=1
    )
    Rating.objects.create(review=review, dimension="anti_hacking", level=level)
    Item.objects.filter(pk=item.pk).update(taken=1)


def test_apart_from_labels_comes_before_answers_apart_before_doubt(world: World, told: Told) -> None:
    queue = make_queue(world, items=6, random_share=0)
    label(queue, queue.items[5], 1)
    label(queue, queue.items[4], 4)
    told.said = {item.sha256: score(level=5, doubt=0.1 * n) for n, item in enumerate(queue.items)}
    told.said[queue.items[2].sha256] = score(apart=3)
    assert order_queue(queue.project) == 6
    assert order_of(queue) == ["c5", "c2", "c4", "c3", "c1", "c0"]
    placed = dict(Item.objects.values_list("candidate", "placed"))
    assert placed == {"c5": "labels", "c2": "answers", "c4": "sure", "c3": "sure", "c1": "sure", "c0": "sure"}
    assert order_queue(queue.project) == 0
    first = next_assignment(queue.people[0], queue.project)
    assert first is not None
    assert first.item.candidate == "c5"


def test_the_places_are_those_there_were_and_gold_stays_before_all(world: World, told: Told) -> None:
    queue = make_queue(world, items=8, random_share=0)
    Item.objects.filter(pk=queue.items[7].pk).update(gold=True)
    ranks = sorted(Item.objects.values_list("rank", flat=True))
    told.said = {item.sha256: score(doubt=0.1 * n) for n, item in enumerate(queue.items)}
    order_queues(world.team)
    assert sorted(Item.objects.values_list("rank", flat=True)) == ranks
    assert order_of(queue) == ["c7", "c6", "c5", "c4", "c3", "c2", "c1", "c0"]
    assert Item.objects.get(candidate="c7").placed == ""


def test_the_random_share_is_moved_by_no_score_and_it_alone_counts_for_figures(world: World, told: Told) -> None:
    queue = make_queue(world, items=400, random_share=20)
    before = dict(Item.objects.values_list("candidate", "rank"))
    told.said = {item.sha256: score(doubt=(n * 37 % 400) / 400) for n, item in enumerate(queue.items)}
    order_queue(queue.project)
    drawn = {item.candidate for item in Item.objects.filter(placed=Placed.DRAWN)}
    assert 50 <= len(drawn) <= 110
    assert {cid: before[cid] for cid in drawn} == dict(
        Item.objects.filter(candidate__in=drawn).values_list("candidate", "rank")
    )
    told.said = {item.sha256: score(level=1, apart=n % 5) for n, item in enumerate(queue.items)}
    order_queue(queue.project)
    assert {item.candidate for item in Item.objects.filter(placed=Placed.DRAWN)} == drawn
    random = randomly_chosen(world.team)
    assert {item.candidate for item in Item.objects.filter(sha256__in=random)} == drawn
    early = list(Item.objects.order_by("rank")[:200].values_list("candidate", flat=True))
    assert 0.1 < sum(cid in drawn for cid in early) / 200 < 0.3, "the share is spread over the queue"


def test_what_the_judge_has_not_scored_stays_where_chance_put_it(world: World, told: Told) -> None:
    queue = make_queue(world, items=4, random_share=0)
    told.said = {item.sha256: score(doubt=0.2 * n) for n, item in enumerate(queue.items) if n != 1}
    order_queue(queue.project)
    assert order_of(queue) == ["c3", "c1", "c2", "c0"]
    assert Item.objects.get(candidate="c1").placed == ""
    assert queue.items[1].sha256 in randomly_chosen(world.team)


def test_an_answer_stays_behind_the_one_whose_feedback_it_answers(world: World, told: Told) -> None:
    queue = make_queue(world, items=5, random_share=0)
    Item.objects.filter(candidate="c2").update(parent="c0", skill="feedback")
    Item.objects.filter(candidate="c4").update(parent="c2", skill="feedback")
    told.said = {item.sha256: score(doubt=0.2 * n) for n, item in enumerate(queue.items)}
    order_queue(queue.project)
    order = order_of(queue)
    assert order == ["c3", "c1", "c0", "c2", "c4"]


def test_an_old_answer_of_which_is_not_known_whose_it_is_does_not_move(world: World, told: Told) -> None:
    queue = make_queue(world, items=4, random_share=0)
    Item.objects.filter(candidate="c3").update(skill="feedback")
    told.said = {item.sha256: score(doubt=0.2 * n) for n, item in enumerate(queue.items)}
    order_queue(queue.project)
    assert order_of(queue) == ["c2", "c1", "c0", "c3"]


def test_without_a_judge_and_in_a_closed_project_nothing_moves(world: World, told: Told) -> None:
    queue = make_queue(world, items=3, random_share=0)
    told.said = {item.sha256: score(doubt=0.2 * n) for n, item in enumerate(queue.items)}
    type(queue.project).objects.update(state="closed")
    assert order_queues(world.team) == 0
    place_of_judge.use(None)
    assert order_queue(queue.project) == 0
    assert order_of(queue) == ["c0", "c1", "c2"]


def test_the_words_name_what_is_widest_apart() -> None:
    assert interest(score(level=5), {"anti_hacking": [1]}).placed is Placed.LABELS
    assert interest(score(level=5, apart=4), {"anti_hacking": [3]}).placed is Placed.ANSWERS
    assert interest(score(level=5), {"anti_hacking": [4, 5]}).placed is Placed.SURE
    assert interest(score(doubt=0.7), {}).placed is Placed.UNSURE
    assert interest(JudgeScore({"anti_hacking": None}, "none", "", 0), {"anti_hacking": [1]}).apart == 0.0


def test_a_filled_queue_is_in_that_order_and_each_item_says_why_it_stands_there(told: Told) -> None:
    desk = PageDesk(make_world())
    Item.objects.filter(project=desk.project).delete()
    type(desk.project).objects.filter(pk=desk.project.pk).update(random_share=0)

    class Doubting(Told):
        def scores(self, team: Team, contents: Collection[str]) -> Mapping[str, JudgeScore]:
            return {sha: score(doubt=int(sha[:4], 16) / 65536) for sha in contents}

    place_of_judge.use(Doubting())
    assert fill(desk.world.owner, desk.project, Filters()) > 2
    client, item = desk.take(desk.rita)
    page = text_of(client.get(item))
    seen = [words for value, words in Placed.choices if value and words in page]
    assert len(seen) == 1
    assert "zebra" not in page.lower()
    manager = text_of(desk.client(desk.world.owner).get(f"/review/projects/{desk.project.pk}/"))
    assert "a judge is" in manager


def test_a_label_more_has_the_queue_ordered_again(
    world: World, conveyor: Conveyor, django_capture_on_commit_callbacks: object
) -> None:
    active_judge(world.team)
    desk = PageDesk(make_world())
    active_judge(desk.world.team)
    client, item = desk.take(desk.rita)
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        client.post(item, {**FORM, "act": "submit"})
    assert {m["pk"] for m in conveyor.sent(ORDER_QUEUES)} == {desk.world.team.pk}
