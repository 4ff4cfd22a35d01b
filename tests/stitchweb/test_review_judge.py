"""A judge's scores stand after a label only, and choose what comes into a queue; without a judge every page says so."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import pytest

from stitchweb.review import judge as place
from stitchweb.review.judge import JudgeScore
from stitchweb.review.models import Item
from stitchweb.review.services.labels import set_adjudicators
from stitchweb.review.services.projects import Filters, ProjectRefused, create_project, fill
from stitchweb.teams.models import Role, Team
from stitchweb.teams.services import create_user, set_role
from tests.stitchweb.markup import well_formed
from tests.stitchweb.test_review_after import FINAL, disagree, path_of
from tests.stitchweb.test_review_pages import FORM, PageDesk, text_of
from tests.stitchweb.world_for_tests import make_world

pytestmark = pytest.mark.django_db


class Told:
    """Answers what the test gives it, for any content."""

    name = "zebra judge 7"
    tells = True

    def __init__(self) -> None:
        self.apart: dict[str, int] = {}

    def scores(self, team: Team, contents: Collection[str]) -> Mapping[str, JudgeScore]:
        levels = {"anti_hacking": 2, "cuda_engineering": None}
        return {c: JudgeScore(levels, "minor", "ZEBRA because", self.apart.get(c, 0)) for c in contents}


@pytest.fixture
def told() -> Iterator[Told]:
    judge = Told()
    place.use(judge)
    yield judge
    place.use(None)


@pytest.fixture
def desk(db: None) -> PageDesk:
    return PageDesk(make_world())


def test_a_judges_score_stands_after_the_submission_and_not_before(desk: PageDesk, told: Told) -> None:
    client, item = desk.take(desk.rita)
    for path in (item, "/review/", f"/review/projects/{desk.project.pk}/", f"{item}hunch/", f"{item}code"):
        assert "zebra" not in text_of(client.get(path)).lower(), path
    client.post(item, {**FORM, "act": "submit"})
    page = client.get(item)
    well_formed(page.content.decode())
    assert "zebra judge 7" in text_of(page)
    assert "ZEBRA because" in text_of(page)


def test_an_adjudicator_sees_it_after_settling(desk: PageDesk, told: Told) -> None:
    item = disagree(desk)
    sam = create_user("sam@example.org", name="Sam Settler")
    set_role(desk.world.team, sam, Role.REVIEWER)
    set_adjudicators(desk.world.owner, desk.project, [sam.pk])
    client = desk.client(sam)
    assert "zebra" not in text_of(client.get(path_of(item))).lower()
    assert client.post(path_of(item), FINAL).status_code == 302
    page = client.get(path_of(item))
    well_formed(page.content.decode())
    assert "ZEBRA because" in text_of(page)


def test_a_queue_is_filled_by_where_the_judge_is_at_odds_with_itself_the_widest_first(desk: PageDesk, told: Told) -> None:
    contents = list(desk.project.items.values_list("sha256", flat=True))
    told.apart = {sha256: at for at, sha256 in enumerate(contents[:4])}
    other = create_project(desk.world.owner, desk.world.team, desk.project.rubric, "Odd ones")
    page = desk.client(desk.world.owner).get(f"/review/projects/{other.pk}/")
    assert "2 levels or more" in text_of(page)
    sent = {"share": "100", "most": "50", "apart": "2"}
    desk.client(desk.world.owner).post(f"/review/projects/{other.pk}/fill", sent)
    came = set(other.items.values_list("sha256", flat=True))
    assert came == {sha256 for sha256, apart in told.apart.items() if apart >= 2}
    ranks = {i.sha256: i.rank for i in Item.objects.filter(project=other)}
    assert all(0 <= rank < 1 for rank in ranks.values())
    assert "judge" not in "".join(other.items.values_list("why", flat=True))


def test_without_a_judge_the_pages_say_so_and_nothing_is_chosen_by_one(desk: PageDesk) -> None:
    owner = desk.client(desk.world.owner)
    path = f"/review/projects/{desk.project.pk}/"
    assert "No judge yet" in text_of(owner.get(path))
    with pytest.raises(ProjectRefused, match="no judge yet"):
        fill(desk.world.owner, desk.project, Filters(apart=2))
    answer = owner.post(f"{path}fill", {"share": "100", "most": "5", "apart": "2"}, follow=True)
    assert "There is no judge yet" in text_of(answer)
    assert fill(desk.world.owner, desk.project, Filters()) == 0


def test_the_scores_of_a_judge_that_may_only_rank_stand_nowhere(desk: PageDesk, told: Told) -> None:
    told.tells = False
    client, item = desk.take(desk.rita)
    client.post(item, {**FORM, "act": "submit"})
    page = client.get(item)
    well_formed(page.content.decode())
    assert "may only rank" in text_of(page)
    assert "ZEBRA because" not in text_of(page)
