"""Runs on a team's models: chosen in the form, asked with its key and prompts, paid from the budget, kept for the owner."""

from __future__ import annotations

import io
import json
import logging
import re
import zipfile
from typing import Any

import pytest
from django.apps import apps
from django.core import serializers
from django.test import Client

from agents.events import View
from gpu_runner.broker import TASK
from stitchweb.llm.models import Provider, TeamModel, TeamPrompt
from stitchweb.llm.services import add_provider, save_model
from stitchweb.runs.management.commands.up import Command
from stitchweb.runs.models import Blob, Event, Job, Run
from stitchweb.teams.models import Role
from stitchweb.teams.services import set_role
from tests.agents.loop_world import FakeHands
from tests.agents.model_server import ModelServer, Say
from tests.agents.test_agentic import FINISH, WRITE
from tests.agents.test_agentic import model as with_tools
from tests.conftest import REFERENCE, World, build_world
from tests.stitchweb import model_story
from tests.stitchweb.conveyor import Conveyor
from tests.stitchweb.test_models_pages import client_of
from tests.stitchweb.test_orchestrator import events_are_whole, fresh

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("litellm")]
KEY = "sk-run-5d1c8b7a6f9e0342"
FORM = {"target": "cpu", "protocol": "strict", "mode": "eval", "precision": "as-reference", "attempts": "12", "action": "start"}


@pytest.fixture
def world(settings: Any) -> World:
    settings.MODEL_SERVERS = ["127.0.0.1"]
    return build_world()


def model_at(world: World, server: ModelServer, **more: object) -> TeamModel:
    provider = add_provider(world.owner, world.team, "House", "server", server.url, KEY)
    return save_model(provider, None, {"name": "scripted-1", "max_tokens": 2000, "price_in": 1.0, "price_out": 2.0} | more)


def start(world: World, conveyor: Conveyor, client: Client | None = None, **chosen: object) -> Run:
    sent = FORM | {name: str(value) for name, value in chosen.items()}
    answer = (client or client_of(world.teammate)).post(f"/programs/{world.revision.program_id}/", sent)
    assert answer.status_code == 302, re.findall(r"<b>(.*?)</b>", answer.content.decode())
    return Run.objects.latest("pk")


def by_all(model: TeamModel) -> dict[str, int]:
    return dict.fromkeys(("planner", "coder", "verifier"), model.pk)


def told(view: View) -> list[str | None]:
    return [candidate.verdict for candidate in view.candidates.values()]


def test_a_run_goes_from_wrong_code_to_a_faster_program_and_its_page_tells_what_it_cost(
    world: World, conveyor: Conveyor
) -> None:
    with ModelServer([model_story.scripted()]) as server:
        run = start(world, conveyor, **by_all(model_at(world, server)), tokens_k=100, money=1)
        hands = model_story.hands()
        conveyor.run(hands)
        assert len(server.requests) == model_story.QUESTIONS
        assert set(server.keys) == {f"Bearer {KEY}"}
    run = fresh(run)
    assert (run.status, run.verdict, run.best) == ("finished", "verified", "c3"), run.sentence
    view = events_are_whole(run)
    assert told(view) == ["build-failed", "verified", "verified"]
    tokens_in, tokens_out = (model_story.QUESTIONS * n for n in model_story.TOKENS)
    assert view.usage is not None
    assert (view.usage.usage.tokens_in, view.usage.usage.tokens_out) == (tokens_in, tokens_out)
    assert view.usage.usage.money == pytest.approx((tokens_in + 2 * tokens_out) / 1e6)
    assert {role: asked.questions for role, asked in view.asked.items()} == {"planner": 1, "coder": 4, "verifier": 3}
    asked = [[message["content"] for message in body["messages"]] for body in server.requests]
    coder = [rest[0] for system, *rest in asked if "You are the Coder" in system]
    assert model_story.ERROR in coder[2]
    assert model_story.BOUND in coder[3]
    assert "All in one loop." in view.log["engineer"]
    page = client_of(world.viewer).get(f"/runs/{run.pk}/").content.decode()
    pages = f"From the handbook: {', '.join(view.asked['coder'].pages)}"
    for words in ("openai/scripted-1", "0.0040", "Questions are counted as they are answered", pages):
        assert words in page, words
    assert view.asked["coder"].pages
    assert not view.asked["verifier"].pages


def test_roles_mix_and_only_those_with_a_model_ask_one(world: World, conveyor: Conveyor) -> None:
    with ModelServer([model_story.scripted()]) as server:
        model = model_at(world, server)
        run = start(world, conveyor, planner="offline", coder=model.pk, verifier="offline", attempts=2)
        assert fresh(run).load().options.models.keys() == {"coder"}
        assert fresh(run).engineer == "offline / llm:openai/scripted-1 / offline"
        answer = client_of(world.owner).post(f"/programs/{world.revision.program_id}/", FORM | {"planner": model.pk})
        assert answer.status_code == 422
        assert "The offline Coder writes what its own Planner found" in answer.content.decode()


def test_a_model_of_another_team_or_none_is_refused_and_what_was_typed_stays(world: World, conveyor: Conveyor) -> None:
    theirs = add_provider(world.outsider, world.others, "Theirs", "openai", "", "")
    stranger = save_model(theirs, None, {"name": "m"})
    for value in (stranger.pk, 99999, "gpt", "-1", "9" * 400):
        sent = FORM | {"coder": value, "attempts": "7"}
        answer = client_of(world.owner).post(f"/programs/{world.revision.program_id}/", sent)
        assert answer.status_code == 422
        assert "There is no such model, or it was removed." in answer.content.decode()
        assert 'name="attempts" inputmode="numeric" required value="7"' in answer.content.decode()
    assert not Run.objects.exists()


def test_a_budget_of_tokens_ends_the_run_before_the_question_that_would_overrun_it(world: World, conveyor: Conveyor) -> None:
    with ModelServer([model_story.scripted()]) as server:
        run = start(world, conveyor, **by_all(model_at(world, server)), tokens_k=4)
        conveyor.run(model_story.hands())
        asked = len(server.requests)
    view = events_are_whole(run)
    assert view.usage is not None
    assert view.usage.usage.tokens_in + view.usage.usage.tokens_out <= 4000
    assert fresh(run).stop_cause == "budget-tokens"
    assert 0 < asked < model_story.QUESTIONS
    assert "of 4.0\xa0k" in client_of(world.owner).get(f"/runs/{run.pk}/").content.decode()


def test_a_model_without_a_known_price_shows_money_as_not_enforced(world: World, conveyor: Conveyor) -> None:
    with ModelServer([model_story.scripted()]) as server:
        model = model_at(world, server, price_in=None, price_out=None)
        form = client_of(world.owner).get(f"/programs/{world.revision.program_id}/").content.decode()
        assert "scripted-1 (price not known)" in form
        run = start(world, conveyor, **by_all(model), money="0.01")
        conveyor.run(model_story.hands())
    assert fresh(run).verdict == "verified"
    page = client_of(world.owner).get(f"/runs/{run.pk}/").content.decode()
    assert "not enforced" in page
    assert "money is not enforced, tokens are" in page


def test_a_key_that_was_taken_away_is_missed_in_a_sentence_and_the_run_can_be_started_again(
    world: World, conveyor: Conveyor
) -> None:
    with ModelServer([Say("never")]) as server:
        model = model_at(world, server)
        run = start(world, conveyor, **by_all(model))
        Provider.objects.all().delete()
        conveyor.run(FakeHands())
        assert server.requests == []
    assert fresh(run).status == "failed"
    assert "was removed from the team&#x27;s models" in client_of(world.owner).get(f"/runs/{run.pk}/").content.decode()
    answer = client_of(world.teammate).post(f"/runs/{run.pk}/again", follow=True)
    assert "is none of this team&#x27;s, or its provider has moved" in answer.content.decode()


def test_questions_and_answers_are_for_the_owner_and_the_managers(world: World, conveyor: Conveyor) -> None:
    with ModelServer([model_story.scripted()]) as server:
        run = start(world, conveyor, **by_all(model_at(world, server)))
        conveyor.run(model_story.hands())
    seq = Event.objects.filter(run=run, kind="model.asked").order_by("seq").values_list("seq", flat=True)[2]
    for who, status in [("teammate", 200), ("owner", 200), ("viewer", 403), ("expert", 403), ("outsider", 404)]:
        client = client_of(getattr(world, who))
        assert client.get(f"/runs/{run.pk}/questions/").status_code == status, who
        assert client.get(f"/runs/{run.pk}/questions/{seq}/").status_code == status, who
    client = client_of(world.teammate)
    listed, one = client.get(f"/runs/{run.pk}/questions/").content.decode(), client.get(f"/runs/{run.pk}/questions/{seq}/")
    assert listed.count('wrap">openai/scripted-1') == model_story.QUESTIONS
    assert "All in one loop." in one.content.decode()
    assert "The reference program" in one.content.decode()
    assert client.get(f"/runs/{run.pk}/questions/1/").status_code == 404
    assert "no-questions" in client_of(world.viewer).get(f"/runs/{run.pk}/").content.decode()


def test_no_key_reaches_a_runner_an_event_a_log_an_export_or_a_page(
    world: World, conveyor: Conveyor, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """The server repeats the key in each answer; whatever is written, sent or shown is looked through for it."""
    story = model_story.scripted()

    def echo(body: dict[str, Any]) -> Say:
        answer = story(body)
        return Say(f"Your key is {KEY}.\n{answer.text}", usage=model_story.TOKENS, pieces=50)

    sent: list[str] = []

    def send(name: str, queue: str, **more: Any) -> None:
        sent.append(json.dumps([name, queue, more]))
        conveyor.send(name, queue, **more)

    monkeypatch.setattr("stitchweb.runs.dispatch.send", send)
    caplog.set_level(logging.DEBUG)
    with ModelServer([echo]) as server:
        run = start(world, conveyor, **by_all(model_at(world, server)))
        conveyor.run(model_story.hands())
        assert set(server.keys) == {f"Bearer {KEY}"}, "the key did travel where it has to"
    assert fresh(run).verdict == "verified"
    sealed = Provider.objects.get().sealed
    secrets = [KEY, KEY[3:], sealed, settings.MODEL_KEYS_SECRET]

    runners = "\n".join(line for line in sent if json.loads(line)[0] == TASK)
    assert runners.count(TASK) >= 5, "the runners did get their tasks"
    rows = {
        model._meta.label: serializers.serialize("json", model.objects.all())
        for model in apps.get_models()
        if model is not Provider
    }
    blobs = b"".join(bytes(blob.data or b"") for blob in Blob.objects.all())
    client = client_of(world.owner)
    places = [f"/runs/{run.pk}/", f"/runs/{run.pk}/events?after=0", f"/models/{world.team.slug}/", "/runs/", "/status/"]
    places += [f"/runs/{run.pk}/questions/", f"/programs/{world.revision.program_id}/"]
    places += [f"/runs/{run.pk}/questions/{e.seq}/" for e in Event.objects.filter(run=run, kind="model.asked")]
    answers = {place: client.get(place) for place in places}
    assert {answer.status_code for answer in answers.values()} == {200}
    taken = client.get(f"/runs/{run.pk}/candidates/c3/take-home.zip").content
    with zipfile.ZipFile(io.BytesIO(taken)) as packed:
        export = b"".join(packed.read(name) for name in packed.namelist())
    looked = {
        "export": export.decode(errors="replace"),
        "messages": "\n".join(sent),
        "rows": "\n".join(rows.values()),
        "blobs": blobs.decode(errors="replace"),
        "log": caplog.text,
        "runner": repr([env for _, _, env in Command()._runners()]),
        "jobs": json.dumps(list(Job.objects.values_list("task", "report"))),
        **{place: answer.content.decode(errors="replace") for place, answer in answers.items()},
    }
    assert "[key]" in looked["blobs"], "what the server repeated was there and is hidden"
    assert {(where, n) for where, text in looked.items() for n, secret in enumerate(secrets) if secret in text} == set()
    assert KEY not in serializers.serialize("json", Provider.objects.all())


def test_a_teams_prompts_are_those_its_runs_ask_with(world: World, conveyor: Conveyor) -> None:
    TeamPrompt.objects.create(team=world.team, name="planner", text="You are the Planner of {{target}}, and brief.\n")
    with ModelServer([model_story.scripted()]) as server:
        run = start(world, conveyor, **by_all(model_at(world, server)))
        TeamPrompt.objects.all().delete()  # a run goes on with what it was started with
        conveyor.run(model_story.hands())
        systems = [body["messages"][0]["content"] for body in server.requests]
    assert systems[0] == "You are the Planner of cpu, and brief.\n"
    assert fresh(run).verdict == "verified"


def test_an_upload_into_another_team_cannot_use_the_models_of_the_first(world: World, conveyor: Conveyor) -> None:
    set_role(world.others, world.owner, Role.MEMBER)
    model = save_model(add_provider(world.owner, world.team, "House", "openai", "", KEY), None, {"name": "m"})
    client = client_of(world.owner)
    assert "Kernel crew: House" in client.get("/upload/").content.decode()
    answer = client.post("/upload/", FORM | {"text": REFERENCE, "team": world.others.slug, "coder": model.pk})
    assert answer.status_code == 422
    assert "The coder&#x27;s model openai/m is none of this team&#x27;s" in answer.content.decode()
    assert not Run.objects.exists()


def test_a_coder_with_tools_builds_and_checks_on_the_runners_and_its_page_tells_each_call(
    world: World, conveyor: Conveyor, monkeypatch: pytest.MonkeyPatch
) -> None:
    hands = FakeHands()
    monkeypatch.setattr("stitchweb.runs.hands.wait", lambda: conveyor.run(hands))
    turns: list[Any] = [WRITE, [("build", {}), ("verify", {})], [FINISH]]
    with ModelServer([with_tools(turns)]) as server:
        model = model_at(world, server)
        run = start(world, conveyor, **by_all(model), coder_tools="on", attempts="1")
        conveyor.run(hands)
    run = fresh(run)
    assert run.verdict == "verified", run.sentence
    assert "agentic:openai/scripted-1" in run.engineer
    assert list(Job.objects.filter(run=run, within__isnull=False).values_list("kind", flat=True)) == ["build", "check"]
    view = events_are_whole(run)
    assert view.asked["coder"].tools == {"write_file": 2, "build": 1, "verify": 1, "finish": 1}
    called = [e.payload["sentence"] for e in Event.objects.filter(run=run, kind="tool.called") if e.payload["tool"] == "verify"]
    assert [words.partition(":")[0] for words in called] == ["verified"]
    assert "coder called build: It builds." in client_of(world.viewer).get(f"/runs/{run.pk}/").content.decode()


def test_tools_are_for_a_coder_that_is_a_model(world: World) -> None:
    page = client_of(world.teammate).get(f"/programs/{world.revision.program_id}/").content.decode()
    assert "A Coder with tools" not in page
    sent = FORM | {"coder_tools": "on"}
    answer = client_of(world.teammate).post(f"/programs/{world.revision.program_id}/", sent)
    assert "Tools are for a Coder that is a model" in answer.content.decode()
    assert not Run.objects.exists()
