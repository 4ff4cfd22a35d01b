"""What can be done with a run that has ended: run it again, from one of its candidates, by hand, or with another text."""

from __future__ import annotations

import pytest
from django.test import Client

from stitchweb.runs.models import Control, Run
from tests.stitchweb.world_for_tests import World, make_world

pytestmark = pytest.mark.django_db


@pytest.fixture
def told() -> World:
    return make_world()


def signed_in(user: object) -> Client:
    client = Client()
    client.force_login(user)  # type: ignore[arg-type]  a User of the world
    return client


def newest() -> Run:
    return Run.objects.order_by("-pk")[0]


@pytest.mark.parametrize("ended", ["done", "refused"])
def test_the_page_of_an_ended_run_offers_to_go_on(told: World, ended: str) -> None:
    run: Run = getattr(told, ended)
    page = signed_in(told.owner).get(f"/runs/{run.pk}/").content.decode()
    assert "Run again" in page
    assert f"/upload/?run={run.pk}" in page
    assert "Run again" not in signed_in(told.owner).get(f"/runs/{told.live.pk}/").content.decode()


def test_a_run_is_run_again_with_its_options(told: World) -> None:
    answer = signed_in(told.owner).post(f"/runs/{told.done.pk}/again")
    fresh = newest()
    assert answer.headers["Location"] == f"/runs/{fresh.pk}/"
    assert fresh.pk != told.done.pk
    assert fresh.revision == told.done.revision
    options, before = fresh.load().options, told.done.load().options
    assert options == before.model_copy(update={"search": before.search.model_copy(update={"samples": False})})  # the Coder's
    assert not Control.objects.exists()


def test_a_new_run_from_a_candidate_tries_its_files_first(told: World) -> None:
    signed_in(told.owner).post(f"/runs/{told.done.pk}/again", {"from": "c3"})
    control = Control.objects.get()
    assert control.run == newest()
    assert control.data["title"] == f"c3 of run {told.done.pk}"
    assert "model_new.py" in control.data["files"]


def test_an_edit_by_hand_of_an_ended_run_is_verified_in_a_new_one(told: World) -> None:
    client, url = signed_in(told.owner), f"/runs/{told.done.pk}/candidates/c3/edit"
    assert "a new run with the same options tries your version first" in client.get(url).content.decode()
    runs = Run.objects.count()
    refused = client.post(url, {"path": ["notes.txt"], "text": ["x"]})
    assert (refused.status_code, Run.objects.count()) == (409, runs)
    taken = client.post(url, {"path": ["model_new.py"], "text": ["class ModelNew: pass"], "title": "mine"})
    assert taken.headers["Location"] == f"/runs/{newest().pk}/"
    assert Control.objects.get().data["title"] == "mine"


def test_a_new_revision_starts_from_the_text_of_the_run(told: World) -> None:
    page = signed_in(told.owner).get(f"/upload/?run={told.refused.pk}").content.decode()
    assert "New revision" in page
    assert f'name="program" value="{told.refused.revision.program_id}"' in page


def test_who_may_only_watch_or_sees_nothing_starts_nothing(told: World) -> None:
    runs = Run.objects.count()
    assert signed_in(told.viewer).post(f"/runs/{told.done.pk}/again").status_code == 403
    assert signed_in(told.outsider).post(f"/runs/{told.done.pk}/again").status_code == 404
    assert signed_in(told.outsider).get(f"/upload/?run={told.done.pk}").status_code == 404
    assert Client().post(f"/runs/{told.done.pk}/again").status_code == 302
    assert Run.objects.count() == runs
