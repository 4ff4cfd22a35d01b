"""What is typed of a revision or a final label lies on the site before it is sent, for its writer alone."""

from __future__ import annotations

import pytest

from stitchweb.review.models import Adjudication, Revised, Typed
from stitchweb.review.services.projects import change
from stitchweb.review.services.retention import forget
from stitchweb.teams.models import User
from tests.stitchweb.test_review_after import FINAL, desk, disagree, path_of, sam, score  # noqa: F401  fixtures
from tests.stitchweb.test_review_pages import PageDesk, text_of

pytestmark = pytest.mark.django_db
HALF = {"level-anti_hacking": "2", "reason": "Half a <reason>"}


def test_a_revision_is_kept_as_it_is_typed_and_goes_when_it_is_sent(desk: PageDesk) -> None:  # noqa: F811
    client, item = score(desk, desk.rita)
    assert "Half a" not in text_of(client.get(item))
    for _ in range(2):
        assert client.post(f"{item}revise/draft", HALF).json() == {}
    assert Typed.objects.count() == 1
    page = client.get(item).content.decode()
    assert "Half a &lt;reason&gt;</textarea>" in page
    assert 'id="anti_hacking-2" value="2" checked' in page
    assert "Draft kept" in page
    assert client.post(f"{item}revise", FINAL).status_code == 302
    assert not Typed.objects.exists()
    late = client.post(f"{item}revise/draft", HALF)
    assert late.status_code == 409
    assert "that stands" in late.json()["refused"]
    assert Revised.objects.get().reason == FINAL["reason"]


def test_nothing_is_kept_before_the_submission_nor_for_another(desk: PageDesk) -> None:  # noqa: F811
    client, item = desk.take(desk.rita)
    assert client.post(f"{item}revise/draft", HALF).status_code == 409
    assert desk.client(desk.raj).post(f"{item}revise/draft", HALF).status_code == 404
    assert not Typed.objects.exists()


def test_a_final_label_is_kept_as_it_is_typed_for_its_writer_alone(desk: PageDesk, sam: User) -> None:  # noqa: F811
    item = disagree(desk)
    client = desk.client(sam)
    assert client.post(f"{path_of(item)}draft", HALF).json() == {}
    assert "Half a <reason>" in text_of(client.get(path_of(item)))
    owner = desk.client(desk.world.owner)
    assert "Half a <reason>" not in text_of(owner.get(path_of(item)))
    assert owner.post(f"{path_of(item)}draft", HALF).status_code == 403
    assert client.post(path_of(item), FINAL).status_code == 302
    assert not Typed.objects.exists()
    assert Adjudication.objects.get().reason == FINAL["reason"]
    late = client.post(f"{path_of(item)}draft", HALF)  # was on its way when the label was sent
    assert late.status_code == 409
    assert "Half a" not in text_of(client.get(path_of(item)))
    newest = {"after": str(Adjudication.objects.get().pk)}
    assert client.post(f"{path_of(item)}draft", HALF | newest).json() == {}  # of another final label


def test_what_was_typed_is_forgotten_with_the_drafts(desk: PageDesk) -> None:  # noqa: F811
    client, item = score(desk, desk.rita)
    client.post(f"{item}revise/draft", HALF)
    change(desk.world.owner, desk.project, state="closed", guidelines="", minutes=60, keep_days=0)
    forget(desk.project)
    assert not Typed.objects.exists()
