"""Steering from the page: controls, hints, an edited plan, a candidate by hand."""

from __future__ import annotations

import pytest
from django.test import Client

from agents.state import Plan, Status, Todo
from stitchweb.runs.models import Control, Event, RunState
from tests.stitchweb.world_for_tests import World, make_world

pytestmark = pytest.mark.django_db


@pytest.fixture
def told() -> World:
    told = make_world()
    plan = Plan(
        version=1,
        approved=False,
        todos=(Todo(id="t1", kind="fuse", title="Fuse"), Todo(id="t2", kind="memory", title="Read once")),
    )
    state = told.waiting.load().model_copy(update={"plans": (plan,), "status": Status.AWAITING_APPROVAL})
    RunState.objects.filter(run=told.waiting).update(state=state.model_dump(mode="json"))
    return told


@pytest.fixture
def client(told: World) -> Client:
    client = Client()
    client.force_login(told.owner)
    return client


def test_a_control_is_recorded_and_leads_back_to_the_run(client: Client, told: World) -> None:
    response = client.post(f"/runs/{told.live.pk}/control", {"kind": "pause"})
    assert response.headers["Location"] == f"/runs/{told.live.pk}/"
    assert Control.objects.get().kind == "pause"
    assert "asked by Ada" in client.get(f"/runs/{told.live.pk}/").content.decode()


def test_with_a_script_the_answer_is_empty_because_the_event_brings_it(client: Client, told: World) -> None:
    response = client.post(
        f"/runs/{told.live.pk}/control", {"kind": "hint", "text": "use tiles"}, headers={"HX-Request": "true"}
    )
    assert response.status_code == 204
    assert Control.objects.get().data == {"text": "use tiles"}


def test_a_null_byte_reaches_no_database(client: Client, told: World) -> None:
    """PostgreSQL refuses it in every text, and answers with an error; SQLite does not."""
    client.post(f"/runs/{told.live.pk}/control", {"kind": "hint", "text": "use\0tiles"})
    assert Control.objects.get().data == {"text": "use\ufffdtiles"}
    assert client.get("/?q=a%00b").context["query"]["q"] == "a\ufffdb"


def test_a_control_that_means_nothing_is_refused_with_a_sentence(client: Client, told: World) -> None:
    answer = client.post(f"/runs/{told.live.pk}/control", {"kind": "resume"}, headers={"HX-Request": "true"})
    assert answer.headers["HX-Retarget"] == "#steer-answer"
    assert "note bad" in answer.content.decode()
    page = client.post(f"/runs/{told.live.pk}/control", {"kind": "explode"}, follow=True).content.decode()
    assert "There is no control named" in page
    assert not Control.objects.exists()


def test_an_edited_plan_is_sent_in_its_new_order_and_approved(client: Client, told: World) -> None:
    url = f"/runs/{told.waiting.pk}/plan"
    assert "Fuse LayerNorm and GELU into one pass" in client.get(url).content.decode()
    fields = {"place-t1": "2", "title-t1": "Fuse all", "keep-t1": "on", "place-t2": "1", "title-t2": "Read once",
              "place-t3": "3", "place-t4": "4", "new": ["Something of mine", ""], "approve": "1"}  # fmt: skip
    assert client.post(url, fields).status_code == 302
    edit, approve = Control.objects.order_by("pk")
    assert approve.kind == "approve_plan"
    todos = edit.data["todos"]
    assert [(t["id"], t["status"]) for t in todos[:2]] == [("t2", "dropped"), ("t1", "open")]
    assert todos[1]["title"] == "Fuse all"
    assert todos[-1] == {"id": "", "title": "Something of mine", "status": "open"}


def test_a_candidate_by_hand_is_checked_before_it_is_taken(client: Client, told: World) -> None:
    url = f"/runs/{told.live.pk}/candidates/reference/edit"
    assert "class ModelNew(nn.Module)" in client.get(url).content.decode()
    refused = client.post(url, {"path": ["notes.txt"], "text": ["x"], "title": "mine"})
    assert refused.status_code == 409
    assert "a candidate needs the file model_new.py" in refused.content.decode()
    assert "notes.txt" in refused.content.decode()
    assert not Control.objects.exists()
    taken = client.post(url, {"path": ["model_new.py"], "text": ["class ModelNew: pass\r\n"], "title": "mine"})
    assert taken.status_code == 302
    made = Control.objects.get()
    assert made.data["title"] == "mine"
    assert made.data["parent"] is None


def test_who_writes_to_an_engineer_that_reads_no_text_is_told_before(client: Client, told: World) -> None:
    assert "reads no text" in client.get(f"/runs/{told.live.pk}/").content.decode()
    assert "reads no text" in client.get(f"/runs/{told.waiting.pk}/plan").content.decode()
    event = Event.objects.get(run=told.live, kind="run.created")
    Event.objects.filter(pk=event.pk).update(payload=event.payload | {"engineers": {"planner": "offline", "coder": "scripted"}})
    assert "reads no text" not in client.get(f"/runs/{told.live.pk}/").content.decode()
