"""The REST API: what a person may see and do, as JSON; refusals as problems; a request sent twice is done once."""

from __future__ import annotations

import html
import json
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from stitchweb.programs.models import Program
from stitchweb.runs.models import Run
from stitchweb.teams.services import create_user, set_role
from tests.stitchweb.api_world import caller, streamed
from tests.stitchweb.conveyor import Conveyor
from tests.stitchweb.parts_for_tests import REFERENCE
from tests.stitchweb.world_for_tests import World, make_world, tell_run

NEW = REFERENCE + "\n# by the API\n"


@pytest.fixture
def told(db: None) -> World:
    return make_world()


def test_what_a_person_may_see_is_listed_and_nothing_else(told: World) -> None:
    mine, others = caller(told.viewer), caller(told.outsider)
    assert mine.get("teams")[1] == [{"slug": told.team.slug, "name": "Kernel team", "role": "viewer"}]
    assert {row["id"] for row in mine.get("runs")[1]["items"]} == set(Run.objects.values_list("pk", flat=True))
    assert mine.get(f"programs/{told.program.pk}")[1]["revisions"][0]["number"] == 1
    assert others.get("runs")[1] == {"items": [], "next": None}
    assert others.get("programs")[1]["items"] == []
    status, problem = others.get(f"runs/{told.done.pk}")
    assert status == 404
    assert problem["detail"] == "There is no such run, or it is not shared with you."
    assert others.last["Content-Type"] == "application/problem+json"


def test_lists_come_in_pages_that_hold_everything_once(told: World) -> None:
    mine = caller(told.owner)
    found, cursor = [], ""
    while cursor is not None:
        page = mine.get(f"runs?limit=2&cursor={cursor}")[1]
        assert len(page["items"]) <= 2
        found += [row["id"] for row in page["items"]]
        cursor = page["next"]
    assert found == sorted(Run.objects.values_list("pk", flat=True), reverse=True)
    assert mine.get("runs?cursor=abc")[0] == 400
    assert [row["id"] for row in mine.get("runs?status=awaiting_approval")[1]["items"]] == [told.waiting.pk]
    assert mine.get("runs?status=great")[0] == 400


def test_a_program_is_uploaded_revised_and_run(told: World, conveyor: Conveyor) -> None:
    mine = caller(told.owner)
    status, made = mine.post("programs", {"text": NEW, "filename": "mine.py", "tags": ["a", "b"]})
    assert status == 201
    assert mine.last["Location"] == f"/api/v1/programs/{made['id']}"
    assert (made["name"], made["revision"], made["tags"]) == ("mine", 1, ["a", "b"])
    assert mine.raw("GET", f"programs/{made['id']}/revisions/1/source").content.decode() == NEW
    assert mine.post(f"programs/{made['id']}/revisions", {"text": NEW + "# 2\n"})[1]["number"] == 2
    assert mine.post(f"programs/{made['id']}/revisions", {"text": NEW})[1]["number"] == 1
    status, run = mine.post("runs", {"program": made["id"], "attempts": 3, "minutes": 2})
    assert status == 201
    row = Run.objects.get(pk=run["id"])
    assert (row.owner, row.revision.number, row.load().options.budget.attempts) == (told.owner, 2, 3)
    assert conveyor.sent("stitchweb.advance") == []  # sent after the commit, which this test never comes to
    assert mine.post("runs", {"program": made["id"], "revision": 9})[0] == 404
    assert mine.post(f"runs/{run['id']}/cancel", {})[0] == 202
    assert Run.objects.get(pk=run["id"]).cancel_requested_at


def test_a_refusal_says_line_reason_and_way_out(told: World) -> None:
    mine = caller(told.owner)
    status, problem = mine.post("programs", {"text": "import torch\nclass Model(\n"})
    assert status == 422
    assert problem["title"] == "Refused"
    assert problem["errors"][0]["line"] == 2
    assert problem["errors"][0]["way_out"]
    assert mine.post("programs", {"text": NEW, "name": "a\u202eb"})[0] == 422
    assert mine.post("programs", {"text": NEW, "colour": "red"})[0] == 400
    assert mine.post("programs", {"text": NEW, "team": "elsewhere"})[0] == 403
    assert mine.post("programs", b"{")[0] == 400
    assert mine.post("programs", {"text": NEW, "analyse": "yes"})[0] == 400
    said = {"Authorization": f"Bearer {mine.token}"}
    assert Client().post("/api/v1/programs", {"text": NEW}, headers=said).status_code == 415
    assert mine.post("programs", b"\xff")[0] == 400
    assert mine.post("programs", b"[" * 200_000)[0] == 400
    assert mine.post(f"runs/{told.done.pk}/cancel", {})[0] == 409
    assert not Program.objects.filter(tags=["a"]).exists()


def test_roles_bound_what_a_token_does(told: World) -> None:
    viewer = caller(told.viewer)
    status, problem = viewer.post("runs", {"program": told.program.pk})
    assert status == 403
    assert problem["detail"] == "You are viewer of this team and this needs a member. An owner can change your role."
    assert viewer.post(f"programs/{told.program.pk}/revisions", {"text": NEW})[0] == 403
    assert viewer.post(f"runs/{told.live.pk}/cancel", {})[0] == 403


def test_a_request_that_is_sent_twice_is_done_once(told: World) -> None:
    mine = caller(told.owner)
    body = {"program": told.program.pk}
    first = mine.post("runs", body, Idempotency_Key="k1")
    assert "Idempotency-Replayed" not in mine.last
    assert mine.post("runs", body, Idempotency_Key="k1") == first
    assert mine.last["Idempotency-Replayed"] == "true"
    assert mine.last["Location"] == f"/api/v1/runs/{first[1]['id']}"
    assert mine.post("runs", body, Idempotency_Key="k2")[1]["id"] != first[1]["id"]
    status, problem = mine.post("runs", body | {"attempts": 3}, Idempotency_Key="k1")
    assert status == 422
    assert "another request" in problem["detail"]
    assert caller(told.viewer).post("runs", body, Idempotency_Key="k1")[0] == 403
    assert mine.post("runs", body, Idempotency_Key="")[0] == 400


def test_what_was_refused_may_be_sent_again_with_the_same_key(told: World, settings: Any) -> None:
    mine, body = caller(told.owner), {"program": told.program.pk}
    settings.RUNS_AT_ONCE = 0
    assert mine.post("runs", body, Idempotency_Key="k")[0] == 409
    settings.RUNS_AT_ONCE = 10
    assert mine.post("runs", body, Idempotency_Key="k")[0] == 201


def test_a_run_that_has_not_changed_is_not_sent_again(told: World) -> None:
    mine = caller(told.owner)
    path = f"runs/{told.done.pk}"
    assert mine.get(path)[1]["speedup"]["value"] > 1
    tag = mine.last["ETag"]
    assert mine.get(path, If_None_Match=tag) == (304, None)
    assert mine.get(f"runs/{told.live.pk}", If_None_Match=tag)[0] == 200


def test_candidates_their_reports_and_files(told: World) -> None:
    mine, run = caller(told.viewer), told.done.pk
    rows = mine.get(f"runs/{run}/candidates")[1]
    best = mine.get(f"runs/{run}")[1]["best"]
    assert best in {row["id"] for row in rows}
    report = mine.get(f"runs/{run}/candidates/{best}")[1]
    assert report["verdict"] == "verified"
    assert mine.get(f"runs/{run}/candidates/{best}", If_None_Match=mine.last["ETag"]) == (304, None)
    assert report["rows"]
    assert report["confirmed"]["device"]
    path = report["files"][0]["path"]
    assert mine.raw("GET", f"runs/{run}/candidates/{best}/files/{path}").content
    assert mine.get(f"runs/{run}/candidates/{best}/files/{path}", If_None_Match=mine.last["ETag"])[0] == 304
    assert mine.get(f"runs/{run}/candidates/{best}/files/nothing.py")[0] == 404
    assert mine.get(f"runs/{run}/candidates/c99")[0] == 404


@pytest.mark.django_db(transaction=True)
def test_events_are_told_whole_by_page_and_by_stream() -> None:
    told = make_world()
    mine, run = caller(told.viewer), told.done
    found, last = [], 0
    while (page := mine.get(f"runs/{run.pk}/events?after={last}&limit=37")[1])["events"]:
        found += [event["seq"] for event in page["events"]]
        last = page["last"]
    assert found == list(range(1, run.last_seq + 1))
    text = streamed(mine.raw("GET", f"runs/{run.pk}/watch"))
    frames = [dict(line.split(": ", 1) for line in frame.split("\n")) for frame in text.strip().split("\n\n")]
    assert [int(frame["id"]) for frame in frames if "id" in frame] == found
    assert json.loads(frames[1]["data"])["kind"] == frames[1]["event"]
    assert frames[-1]["event"] == "end"


@pytest.mark.django_db(transaction=True)
def test_a_stream_resumes_after_the_last_event() -> None:
    told = make_world()
    mine, run = caller(told.viewer), told.done
    after = run.last_seq - 2
    assert mine.raw("GET", f"runs/{run.pk}/watch", Last_Event_ID=str(after))["Content-Type"].startswith("text/event-stream")
    text = streamed(mine.last)
    assert [line for line in text.split("\n") if line.startswith("id: ")] == [f"id: {after + 1}", f"id: {after + 2}"]
    assert mine.get(f"runs/{run.pk}/watch", Last_Event_ID="soon")[0] == 400
    assert caller(told.outsider).get(f"runs/{run.pk}/watch")[0] == 404


def test_addresses_that_are_none_answer_with_a_problem(db: None) -> None:
    for path in ("", "nothing", "runs/", "runs/12x", "runs/1/candidates/a%0Ab"):
        answer = Client().get(f"/api/v1/{path}")
        assert answer.status_code == 404, path
        assert answer["Content-Type"] == "application/problem+json"


def test_the_list_of_runs_asks_as_much_for_many_as_for_one(
    told: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    from tests.stitchweb.views_for_tests import refused_story

    for _ in range(5):
        tell_run(told.revision, told.owner, *refused_story())
    mine = caller(told.owner)
    mine.get("runs")
    with django_assert_num_queries(2):
        mine.get("runs")
    with django_assert_num_queries(2):
        mine.get("programs")


def test_somebody_who_left_the_team_sees_nothing_more(told: World) -> None:
    person = create_user("gone@example.org")
    membership = set_role(told.team, person, "member")  # type: ignore[arg-type]
    mine = caller(person)
    assert mine.get(f"runs/{told.done.pk}")[0] == 200
    membership.delete()
    assert mine.get(f"runs/{told.done.pk}")[0] == 404


def test_the_page_about_the_api_tells_every_operation(client: Client, db: None) -> None:
    schema = client.get("/api/v1/openapi.json").json()
    page = html.unescape(client.get("/api/docs").content.decode())
    assert schema["openapi"] == "3.1.0"
    for path, methods in schema["paths"].items():
        assert path in page
        assert all(said["summary"] in page and said["description"] for said in methods.values())
    program = client.get("/api/client.py")
    assert program.content.startswith(b"#!/usr/bin/env python3")
    assert program["Content-Disposition"] == 'attachment; filename="client.py"'
    assert b"python3 client.py login" in program.content  # it calls itself what it is saved as
    assert b"stitchweb.py" not in program.content
