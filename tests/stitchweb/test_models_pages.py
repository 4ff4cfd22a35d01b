"""A team's models: who sees and changes them, keys that go in and never come out, servers that may be asked, a test of one."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.llm.keys import NoKey
from stitchweb.llm import vault
from stitchweb.llm.doors import team_doors
from stitchweb.llm.models import Provider, RoleDefault, TeamModel
from stitchweb.llm.services import add_provider, save_model, set_key
from stitchweb.studio.tasks import test_model as ask_it
from stitchweb.studio.trying import TEST_MODEL
from stitchweb.teams.models import Role
from stitchweb.teams.services import set_role
from tests.agents.model_server import ModelServer, Refuse, Say
from tests.conftest import World
from tests.stitchweb.conveyor import Conveyor

pytestmark = [pytest.mark.django_db, pytest.mark.xdist_group("litellm")]
KEY = "sk-page-7f3e9a1c5b2d8064"
OTHER = "sk-page-0000111122223333"


def client_of(user: object) -> Client:
    client = Client()
    client.force_login(user)  # type: ignore[arg-type]
    return client


@pytest.fixture
def inner(settings: Any) -> None:
    settings.MODEL_SERVERS = ["127.0.0.1"]


@pytest.fixture
def provider(world: World) -> Provider:
    return add_provider(world.owner, world.team, "House", "server", "http://93.184.215.14/v1", KEY)


def values(**more: object) -> dict[str, Any]:
    return {"name": "scripted-1", "max_tokens": 1000} | more


def doctored(body: dict[str, Any]) -> Say:
    """A model that can do all but call tools."""
    if "response_format" in body:
        return Say('{"ready": true}', usage=(200, 20))
    if "tools" in body:
        return Say("ready", usage=(180, 20))
    long = len(body["messages"][0]["content"]) > 2000
    return Say("ready", usage=(4000, 1)) if long else Say("one two three four five six seven eight", usage=(40, 20))


def model_at(world: World, server: ModelServer, key: str = KEY, **more: object) -> TeamModel:
    provider = add_provider(world.owner, world.team, "House", "server", server.url, key)
    return save_model(provider, None, values(**more))


def test_who_starts_runs_sees_the_models_and_who_manages_changes_them(world: World, provider: Provider) -> None:
    model = save_model(provider, None, values())
    slug = world.team.slug
    pages = [
        f"/models/{slug}/",
        f"/models/{slug}/prompts/",
        f"/models/{slug}/prompts/coder/",
        f"/models/{slug}/{model.pk}/test",
    ]
    forms = [
        f"/models/{slug}/providers/new",
        f"/models/{slug}/providers/{provider.ident}/",
        f"/models/{slug}/providers/{provider.ident}/models/new",
        f"/models/{slug}/{model.pk}/",
    ]
    posts = [
        f"/models/{slug}/defaults",
        f"/models/{slug}/providers/{provider.ident}/key",
        f"/models/{slug}/{model.pk}/test",
        f"/models/{slug}/{model.pk}/remove",
        f"/models/{slug}/providers/{provider.ident}/remove",
    ]
    set_role(world.team, world.teammate, Role.MEMBER)
    for who, seen, changed in [("outsider", 404, 404), ("viewer", 403, 403), ("expert", 403, 403), ("teammate", 200, 403)]:
        client = client_of(getattr(world, who))
        assert {client.get(page).status_code for page in pages} == {seen}, who
        assert {client.get(page).status_code for page in forms} == {changed}, who
        assert {client.post(page).status_code for page in [*posts, *forms]} == {changed}, who
        assert client.post(f"/models/{slug}/prompts/coder/", {"action": "save", "text": "x"}).status_code == changed
    assert {client_of(world.owner).get(page).status_code for page in [*pages, *forms]} == {200}
    assert Client().get(pages[0]).status_code == 302
    provider.refresh_from_db()
    assert TeamModel.objects.count() == 1
    assert provider.sealed


def test_the_menu_leads_to_the_first_team_and_says_so_where_there_is_none(world: World) -> None:
    assert client_of(world.owner).get("/models/").headers["Location"] == f"/models/{world.team.slug}/"
    assert "for those who start runs" in client_of(world.viewer).get("/models/").content.decode()


def test_a_key_goes_in_sealed_and_no_page_ever_shows_it(world: World, inner: None) -> None:
    client, slug = client_of(world.owner), world.team.slug
    sent = {"kind": "server", "name": "House", "api_base": "http://127.0.0.1:9/v1/", "key": f" {KEY}\n"}
    answer = client.post(f"/models/{slug}/providers/new", sent, follow=True)
    provider = Provider.objects.get()
    assert (provider.api_base, provider.ending, provider.key_by) == ("http://127.0.0.1:9/v1", KEY[-4:], world.owner)
    assert KEY not in provider.sealed
    assert vault.unseal(world.team.pk, provider.ident, provider.sealed) == KEY
    pages = [answer, client.get(f"/models/{slug}/"), client.get(f"/models/{slug}/providers/{provider.ident}/")]
    refused = client.post(f"/models/{slug}/providers/new", sent)  # the name is taken
    assert refused.status_code == 422
    text = refused.content.decode()
    assert "already. Choose another name." in text
    assert "Enter the key again" in text
    assert "http://127.0.0.1:9/v1" in text, "what was typed stays"
    for page in [*pages, refused]:
        assert KEY not in page.content.decode()
        assert provider.sealed not in page.content.decode()
    assert f'ends with <span class="mono">{KEY[-4:]}</span>' in pages[1].content.decode()


def test_a_key_is_replaced_and_removed_and_counts_from_the_next_question_on(world: World, provider: Provider) -> None:
    client, place = client_of(world.owner), f"/models/{world.team.slug}/providers/{provider.ident}/key"
    choice = save_model(provider, None, values()).choice
    door = team_doors(world.team.pk)
    assert door(choice).secret.reveal() == KEY  # type: ignore[union-attr]
    for wrong, why in [
        ("", "required"),
        ("short", "fewer than 8"),
        ("two words 12", "no key has"),
        ("sk-é1234567", "no key has"),
    ]:
        answer = client.post(place, {"key": wrong})
        assert answer.status_code == 422
        assert why in answer.content.decode()
    assert client.post(place, {"key": OTHER}).status_code == 302
    assert door(choice).secret.reveal() == OTHER  # type: ignore[union-attr]
    assert client.post(place, {"forget": "on"}).status_code == 302
    assert door(choice).secret is None
    provider.refresh_from_db()
    assert (provider.sealed, provider.ending, provider.key_at) == ("", "", None)


def test_a_sealed_key_opens_for_its_own_provider_under_its_own_setting_alone(
    world: World, provider: Provider, settings: Any
) -> None:
    stolen = add_provider(world.outsider, world.others, "Thief", "server", "http://93.184.215.15/v1", "")
    Provider.objects.filter(pk=stolen.pk).update(sealed=provider.sealed)
    stolen.refresh_from_db()
    with pytest.raises(NoKey, match="MODEL_KEYS_SECRET"):
        team_doors(world.others.pk)(save_model(stolen, None, values()).choice)
    choice = save_model(provider, None, values()).choice
    with pytest.raises(NoKey, match="was removed"):
        team_doors(world.others.pk)(choice)
    settings.MODEL_KEYS_SECRET = "another one"
    with pytest.raises(NoKey, match="The key of House cannot be read"):
        team_doors(world.team.pk)(choice)


def test_a_key_never_follows_its_provider_to_another_address(world: World, provider: Provider) -> None:
    choice = save_model(provider, None, values()).choice
    place = f"/models/{world.team.slug}/providers/{provider.ident}/"
    answer = client_of(world.owner).post(place, {"name": "House", "api_base": "http://93.184.215.99/v1"}, follow=True)
    assert "The key was taken away with the old address" in answer.content.decode()
    provider.refresh_from_db()
    assert (provider.sealed, provider.api_base) == ("", "http://93.184.215.99/v1")
    set_key(world.owner, provider, OTHER)
    with pytest.raises(NoKey, match="another base URL than when this run was started"):
        team_doors(world.team.pk)(choice)


@pytest.mark.parametrize(
    ("base", "why"),
    [
        ("", "needs its base URL"),
        ("ftp://93.184.215.14/v1", "no http:// or https:// address"),
        ("http://user:pass@93.184.215.14/v1", "no user, password or key"),
        ("http://93.184.215.14/v1?key=1", "no user, password or key"),
        ("http://127.0.0.1:9200/v1", "MODEL_SERVERS=127.0.0.1:9200"),
        ("http://169.254.169.254/latest", "no public address"),
        ("http://[::1]:8000/v1", "MODEL_SERVERS=[::1]:8000"),
        ("http://2130706433/v1", "leads to 127.0.0.1"),
        ("http://localhost/v1", "no public address"),
        ("http://no-such-host.invalid/v1", "leads to no address"),
        ("http://93.184.215.14:99999/v1", "leads to no address"),
    ],
)
def test_a_server_that_this_site_may_not_ask_is_refused_with_a_way_out(world: World, base: str, why: str) -> None:
    place = f"/models/{world.team.slug}/providers/new"
    answer = client_of(world.owner).post(place, {"kind": "server", "name": "House", "api_base": base, "key": KEY})
    text = answer.content.decode()
    assert answer.status_code == 422
    assert why in text
    assert KEY not in text
    assert not Provider.objects.exists()


def test_a_hosted_service_has_no_address_of_its_own_choosing(world: World) -> None:
    sent = {"kind": "anthropic", "name": "", "api_base": "http://169.254.169.254/", "key": KEY}
    assert client_of(world.owner).post(f"/models/{world.team.slug}/providers/new", sent).status_code == 302
    provider = Provider.objects.get()
    assert (provider.name, provider.api_base) == ("Anthropic", "")
    model = save_model(provider, None, values(name="some-model"))
    assert (model.choice.model, model.choice.api_base) == ("anthropic/some-model", "")


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ({"name": ""}, "Name of the model"),
        ({"max_tokens": "10"}, "from 256 to"),
        ({"price_in": "1"}, "One price without the other"),
        ({"price_in": "-1", "price_out": "1"}, "from 0 to"),
        ({"context": "1000000", "max_tokens": "1000000"}, "more than the longest answer"),
        ({"temperature": "nan"}, "Temperature"),
    ],
)
def test_a_models_form_says_what_is_wrong_and_keeps_what_was_typed(
    world: World, provider: Provider, sent: dict[str, str], why: str
) -> None:
    place = f"/models/{world.team.slug}/providers/{provider.ident}/models/new"
    answer = client_of(world.owner).post(place, {"name": "a-model", "max_tokens": "5000"} | sent)
    assert answer.status_code == 422
    text = answer.content.decode()
    assert why in text
    assert all(f'value="{value}"' in text for value in sent.values() if value)
    assert not TeamModel.objects.exists()


def test_defaults_per_role_are_stored_and_refused_where_they_cannot_work(world: World, provider: Provider) -> None:
    model, client = save_model(provider, None, values()), client_of(world.owner)
    place = f"/models/{world.team.slug}/defaults"
    answer = client.post(place, {"planner": model.pk, "coder": "offline", "verifier": "offline"})
    assert answer.status_code == 422
    assert "The offline Coder writes what its own Planner found" in answer.content.decode()
    foreign = save_model(add_provider(world.outsider, world.others, "Theirs", "openai", "", ""), None, values())
    assert client.post(place, {"coder": foreign.pk}).status_code == 422
    assert client.post(place, {"planner": "offline", "coder": model.pk, "verifier": model.pk}).status_code == 302
    assert set(RoleDefault.objects.values_list("role", "model")) == {("coder", model.pk), ("verifier", model.pk)}
    page = client.get(f"/programs/{world.revision.program_id}/").content.decode()
    assert page.count(f'<option value="{model.pk}" selected>') == 2


def test_a_test_of_a_model_is_put_by_the_agent_worker_and_says_what_the_model_can_do(
    world: World, inner: None, conveyor: Conveyor, django_capture_on_commit_callbacks: Any
) -> None:
    client = client_of(world.owner)
    with ModelServer([doctored]) as server:
        model = model_at(world, server, price_in=1.0, price_out=2.0)
        place = f"/models/{world.team.slug}/{model.pk}/test"
        with django_capture_on_commit_callbacks(execute=True):
            client.post(place)
        ask_it(**conveyor.sent(TEST_MODEL)[0])
    page = client.get(place).content.decode()
    assert "works" in page
    assert "Also tried and well: streaming, speed, long questions, JSON schema." in page
    assert "It does not call tools when asked to." in page
    assert "The whole test took 4420 tokens in, 61 out" in page
    model.refresh_from_db()
    assert [found["part"] for found in model.test_findings] == ["streaming", "speed", "context", "tools", "structure"]
    client.post(f"/models/{world.team.slug}/providers/{model.provider.ident}/key", {"key": f"{KEY}-new"})
    model.refresh_from_db()
    assert (model.test_state, model.test_findings) == ("", [])


def test_a_test_that_fails_says_why_and_what_to_do(
    world: World, inner: None, conveyor: Conveyor, django_capture_on_commit_callbacks: Any
) -> None:
    client = client_of(world.owner)
    script = [Say("", thinking="Hm."), Refuse(401, f"bad key {KEY}"), Refuse(404, "model not found")]
    with ModelServer(script) as server:
        model = model_at(world, server, price_in=1.0, price_out=2.0)
        place = f"/models/{world.team.slug}/{model.pk}/test"
        told = []
        for _ in range(3):
            with django_capture_on_commit_callbacks(execute=True):
                asked = client.post(place, headers={"HX-Request": "true"})
                client.post(place)  # one under way is not sent again
            assert 'hx-trigger="every 1s"' in asked.content.decode()
            [message] = conveyor.sent(TEST_MODEL)
            assert message == {"model_id": model.pk}
            conveyor.messages.clear()
            ask_it(**message)
            told.append(client.get(place).content.decode())
        assert set(server.keys) == {f"Bearer {KEY}"}
    assert "gave an empty answer" in told[0]
    assert "refuses the key of House" in told[1]
    assert "has no model &#x27;scripted-1&#x27;" in told[2]
    for page in told:
        assert KEY not in page
        assert "every 1s" not in page


def test_a_server_that_moved_inside_since_it_was_named_is_not_asked(world: World, settings: Any) -> None:
    settings.MODEL_SERVERS = ["127.0.0.1"]
    with ModelServer([Say("Ready")]) as server:
        model = model_at(world, server)
        settings.MODEL_SERVERS = []
        ask_it(model.pk)
        assert server.requests == []
    model.refresh_from_db()
    assert model.test_state == "failed"
    assert "no public address" in model.test_sentence


def test_the_overview_asks_the_database_as_often_for_many_models(
    world: World, provider: Provider, django_assert_num_queries: Any
) -> None:
    client, place = client_of(world.owner), f"/models/{world.team.slug}/"
    save_model(provider, None, values())
    client.get(place)
    with CaptureQueriesContext(connection) as few:
        client.get(place)
    for n in range(12):
        other = add_provider(world.owner, world.team, f"House {n}", "openai", "", KEY)
        for m in range(3):
            save_model(other, None, values(name=f"model-{m}"))
    with django_assert_num_queries(len(few)):
        client.get(place)
