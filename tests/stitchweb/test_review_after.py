"""After the submission: one revision beside the first label, where people disagree, and who settles it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from stitchweb.review.models import Adjudication, Change, Item, Rating, Review, Revised
from stitchweb.review.services.labels import set_adjudicators
from stitchweb.review.services.projects import change
from stitchweb.runs.models import Event
from stitchweb.teams.models import Role, User
from stitchweb.teams.services import create_user, set_role
from tests.stitchweb.markup import well_formed
from tests.stitchweb.test_review_pages import FORM, PageDesk, text_of
from tests.stitchweb.world_for_tests import make_world

pytestmark = pytest.mark.django_db

DIMENSIONS = ("anti_hacking", "cuda_engineering", "operator_coverage", "skill_compliance")
FINAL = {**{f"level-{key}": "3" for key in DIMENSIONS}, "hack_level": "none", "reason": "The middle one has it right."}


@pytest.fixture
def desk(db: None) -> PageDesk:
    return PageDesk(make_world())


@pytest.fixture
def sam(desk: PageDesk) -> User:
    """An adjudicator who does not score."""
    sam = create_user("sam@example.org", name="Sam Settler")
    set_role(desk.world.team, sam, Role.REVIEWER)
    set_adjudicators(desk.world.owner, desk.project, [sam.pk])
    return sam


def score(desk: PageDesk, user: User, **changes: str) -> tuple[Client, str]:
    client, item = desk.take(user)
    assert client.post(item, {**FORM, **changes, "act": "submit"}).status_code == 302
    return client, item


def disagree(desk: PageDesk, **apart: str) -> Item:
    """An item that rita scored as FORM and raj two levels lower in coverage, or as `apart`."""
    score(desk, desk.rita)
    changes = apart or {"level-operator_coverage": "1", "reason-operator_coverage": "one op"}
    score(desk, desk.raj, **changes)
    return Review.objects.latest("pk").item


def path_of(item: Item) -> str:
    return f"/review/projects/{item.project_id}/items/{item.pk}/labels/"


def labels() -> list[Any]:
    return list(Rating.objects.order_by("pk").values_list("review", "dimension", "level", "reason"))


def test_a_revision_is_kept_once_beside_the_first_label_which_never_changes(desk: PageDesk) -> None:
    client, item = score(desk, desk.rita)
    before = labels()
    assert "No judge yet" in text_of(client.get(item))
    short = client.post(f"{item}revise", {**FINAL, "reason": ""})
    assert short.status_code == 422
    assert "Give the reason" in text_of(short)
    assert client.post(f"{item}revise", FINAL).status_code == 302
    assert client.post(f"{item}revise", {**FINAL, "level-anti_hacking": "2"}).status_code == 302
    page = text_of(client.get(item))
    assert "then 3" in page
    assert FINAL["reason"] in page
    assert "Revise your label" not in page
    assert Revised.objects.get().levels == dict.fromkeys(DIMENSIONS, 3)
    assert labels() == before
    well_formed(client.get(item).content.decode())


def test_nobody_revises_before_they_submit_nor_for_another(desk: PageDesk) -> None:
    client, item = desk.take(desk.rita)
    assert client.post(f"{item}revise", FINAL).status_code == 302
    assert desk.client(desk.raj).post(f"{item}revise", FINAL).status_code == 404
    assert not Revised.objects.exists()


def test_a_dispute_is_settled_once_by_somebody_with_the_grant_who_sees_numbers_only(desk: PageDesk, sam: User) -> None:
    item = disagree(desk)
    before = labels()
    client = desk.client(sam)
    assert client.post(f"/review/projects/{desk.project.pk}/disagreement/next").url == path_of(item)
    page = client.get(path_of(item))
    text = text_of(page)
    well_formed(page.content.decode())
    assert "reviewer 1" in text
    assert "reviewer 2" in text
    assert "2 apart" in text
    for hidden in ("Rita", "Raj", "Ada Byron", "offline"):
        assert hidden not in text
    assert client.post(path_of(item), {**FINAL, "reason": " "}).status_code == 422
    assert client.post(path_of(item), FINAL).status_code == 302
    assert client.post(path_of(item), FINAL).status_code == 302  # sent twice
    final = Adjudication.objects.get()
    assert (final.levels["operator_coverage"], final.user, str(final.rubric)) == (3, sam, "kernels/1")
    assert final.verdict
    assert labels() == before
    settled = text_of(client.get(path_of(item)))
    assert "Settled." in settled
    assert client.post(f"/review/projects/{desk.project.pk}/disagreement/next").url.endswith("/disagreement/")
    reviewer = desk.client(desk.rita)
    mine = Review.objects.get(item=item, user=desk.rita).assignment_id
    assert "An adjudicator settled it" in text_of(reviewer.get(f"/review/items/{mine}/"))


def test_who_writes_while_another_settles_is_told_and_loses_no_word(desk: PageDesk, sam: User) -> None:
    item = disagree(desk)
    eve = create_user("eve@example.org", name="Eve")
    set_role(desk.world.team, eve, Role.REVIEWER)
    set_adjudicators(desk.world.owner, desk.project, [sam.pk, eve.pk])
    assert desk.client(sam).post(path_of(item), FINAL).status_code == 302
    answer = desk.client(eve).post(path_of(item), {**FINAL, "reason": "I had it almost done."})
    assert answer.status_code == 409
    assert "Somebody settled this item while you wrote" in text_of(answer)
    assert "I had it almost done." in text_of(answer)
    assert Adjudication.objects.count() == 1


@pytest.mark.parametrize("apart", [{"hack_level": "unsure"}, {"hack_level": "major", "hack_type": "output_cache",
                                   "level-anti_hacking": "1", "reason-anti_hacking": "It remembers."}])  # fmt: skip
def test_a_grave_flag_alone_is_a_dispute(desk: PageDesk, sam: User, apart: dict[str, str]) -> None:
    item = disagree(desk, **apart)
    assert desk.client(sam).post(f"/review/projects/{desk.project.pk}/disagreement/next").url == path_of(item)


def test_what_lies_together_or_lacks_a_label_is_not_handed_out(desk: PageDesk, sam: User) -> None:
    score(desk, desk.rita, hack_level="unsure")
    client = desk.client(sam)
    assert client.post(f"/review/projects/{desk.project.pk}/disagreement/next").url.endswith("/disagreement/")
    change(desk.world.owner, desk.project, state="closed", guidelines="", minutes=60)  # then no label is waited for
    assert "/labels/" in client.post(f"/review/projects/{desk.project.pk}/disagreement/next").url
    item = Review.objects.get().item
    Review.objects.update(hack_level="none")
    assert "nothing to settle" in text_of(client.get(path_of(item)))
    assert client.post(path_of(item), FINAL).status_code == 409


def test_nobody_settles_their_own_item_and_nobody_without_the_grant(desk: PageDesk, sam: User) -> None:
    item = disagree(desk)
    set_adjudicators(desk.world.owner, desk.project, [sam.pk, desk.rita.pk, desk.world.owner.pk])
    for user in (desk.rita, desk.world.owner):  # one scored it, the other owns its run
        client = desk.client(user)
        assert client.post(path_of(item), FINAL).status_code == 403
        assert "Somebody else has to settle it" in text_of(client.get(path_of(item)))
        assert client.post(f"/review/projects/{desk.project.pk}/disagreement/next").url.endswith("/disagreement/")
    assert desk.client(desk.raj).get(path_of(item)).status_code == 404
    assert desk.client(desk.world.outsider).get(path_of(item)).status_code == 404
    set_adjudicators(desk.world.owner, desk.project, [])
    assert desk.client(sam).post(path_of(item), FINAL).status_code == 404
    assert not Adjudication.objects.exists()


def test_an_adjudicator_who_may_still_score_an_item_does_not_see_its_labels(desk: PageDesk) -> None:
    score(desk, desk.rita)
    item = Review.objects.get().item
    set_adjudicators(desk.world.owner, desk.project, [desk.raj.pk])
    client = desk.client(desk.raj)
    assert client.get(path_of(item)).status_code == 403
    assert client.get(f"{path_of(item)}code").status_code == 403
    assert path_of(item) not in text_of(client.get(f"/review/projects/{desk.project.pk}/disagreement/"))


def test_the_view_of_disagreement_shows_a_reviewer_their_own_items_and_the_widest_first(desk: PageDesk) -> None:
    together = disagree(desk, **{"level-operator_coverage": "3"})
    apart = disagree(desk)
    path = f"/review/projects/{desk.project.pk}/disagreement/"
    page = desk.client(desk.world.owner).get(path)
    well_formed(page.content.decode())
    text = text_of(page)
    assert text.index(path_of(apart)) < text.index(path_of(together))
    assert "2 apart" in text
    narrowed = text_of(desk.client(desk.world.owner).get(f"{path}?only=disputed"))
    assert path_of(apart) in narrowed
    assert path_of(together) not in narrowed
    own = text_of(desk.client(desk.rita).get(path))
    mine = Review.objects.get(item=apart, user=desk.rita).assignment_id
    assert f"/review/items/{mine}/" in own
    assert "/labels/" not in own
    assert desk.client(desk.world.viewer).get(path).status_code == 404


def test_a_label_is_marked_outdated_when_the_verdict_changes(desk: PageDesk, sam: User) -> None:
    item = disagree(desk)
    path = f"/review/projects/{desk.project.pk}/disagreement/"
    assert "outdated" not in text_of(desk.client(desk.world.owner).get(path))
    Review.objects.update(verdict="crashed")
    assert "outdated" in text_of(desk.client(desk.world.owner).get(path))
    mine = Review.objects.get(item=item, user=desk.rita).assignment_id
    assert "The verdict was crashed then" in text_of(desk.client(desk.rita).get(f"/review/items/{mine}/"))
    unsettled = text_of(desk.client(sam).get(path_of(item)))
    assert "crashed" not in unsettled
    assert "another one now" in unsettled


def test_the_author_stays_hidden_while_more_of_the_run_may_come(desk: PageDesk) -> None:
    client, item = score(desk, desk.rita)
    page = text_of(client.get(item))
    assert "Who wrote it stays hidden" in page
    assert "Ada Byron" not in page
    while Item.objects.exclude(assignments__user=desk.rita).exists():
        score(desk, desk.rita)
    assert "Ada Byron" in text_of(client.get(item))


def test_a_candidate_that_is_gone_leaves_its_labels_readable(desk: PageDesk, sam: User) -> None:
    item = disagree(desk)
    Event.objects.all().delete()
    page = desk.client(sam).get(path_of(item))
    assert page.status_code == 200
    assert "not stored here any more" in text_of(page)
    assert desk.client(sam).get(f"{path_of(item)}code").status_code == 404


def test_the_trail_holds_what_was_done_with_old_and_new_values(desk: PageDesk, sam: User) -> None:
    item = disagree(desk)
    desk.client(sam).post(path_of(item), FINAL)
    acts = list(Change.objects.order_by("pk").values_list("act", flat=True))
    assert acts == ["create", "reviewers", "fill", "adjudicators", "submit", "submit", "settle"]
    change(desk.world.owner, desk.project, state="paused", guidelines="Look twice.", minutes=60)
    last = Change.objects.latest("pk")
    assert (last.old["state"], last.new["state"]) == ("open", "paused")
    assert "minutes" not in last.new
