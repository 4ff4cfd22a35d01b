"""Signing in: by password, by a code, with a second factor, by invitation alone, and never by guessing."""

from __future__ import annotations

import re
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.core import mail
from django.core.cache import cache
from django.test import Client

from stitchweb.core.mail import mail_server
from stitchweb.core.providers import providers
from stitchweb.teams.models import Role, User
from stitchweb.teams.services import create_user, make_login_link
from tests.conftest import World

pytestmark = pytest.mark.django_db
PASSWORD = "a-long-enough-phrase-7"


@pytest.fixture(autouse=True)
def fresh() -> None:
    cache.clear()


@pytest.fixture
def ada() -> User:
    return create_user("ada@example.org", PASSWORD, name="Ada")


def signed_in(client: Client) -> str | None:
    return client.session.get("_auth_user_id")


def sign_in(client: Client, email: str = "ada@example.org", password: str = PASSWORD, **more: str) -> Any:
    return client.post("/login/", {"login": email, "password": password} | more)


def text(answer: Any) -> str:
    return answer.content.decode()


def test_a_password_lets_in_and_leads_on(ada: User, client: Client) -> None:
    answer = sign_in(client, email="ADA@example.org", next="/runs/")
    assert (answer.status_code, answer["Location"], signed_in(client)) == (302, "/runs/", str(ada.pk))


def test_it_leads_to_no_other_site(ada: User, client: Client) -> None:
    assert sign_in(client, next="https://evil.example/")["Location"] == "/"


def test_a_wrong_password_is_not_told_from_an_unknown_address(ada: User, client: Client) -> None:
    answers = [
        re.sub(r'value="[^"]*"|data-now="[^"]*"', "", text(sign_in(client, email, "wrong")))
        for email in (ada.email, "no@example.org")
    ]
    assert answers[0] == answers[1]
    assert signed_in(client) is None


def test_who_guesses_is_locked_out_with_a_sentence_even_with_the_right_one(ada: User, client: Client) -> None:
    for _ in range(5):
        assert "Too many failed" not in text(sign_in(client, password="wrong"))
    assert "Too many failed login attempts" in text(sign_in(client))
    assert signed_in(client) is None


def test_many_attempts_from_one_address_are_refused_with_the_time_to_wait(ada: User, client: Client) -> None:
    for turn in range(30):
        sign_in(client, email=f"nobody{turn}@example.org", password="wrong")
    answer = sign_in(client, email="somebody@example.org", password="wrong")
    assert answer.status_code == 429 or "Too many failed" in text(answer)
    if answer.status_code == 429:
        assert int(answer["Retry-After"]) > 0


def test_a_code_by_mail_lets_in(ada: User, client: Client) -> None:
    client.post("/account/login/code/", {"email": ada.email})
    assert mail.outbox[-1].to == [ada.email]
    code = re.search(r"\b([A-Z0-9]{4}-[A-Z0-9]{4})\b", mail.outbox[-1].body)
    assert code, mail.outbox[-1].body
    client.post("/account/login/code/confirm/", {"code": code[1]})
    assert signed_in(client) == str(ada.pk)


def test_a_forgotten_password_is_set_anew_by_a_link_in_a_mail(ada: User, client: Client) -> None:
    client.post("/account/password/reset/", {"email": ada.email})
    link = re.search(r"https?://[^/]+(/account/password/reset/key/\S+)", mail.outbox[-1].body)
    assert link
    place = client.get(link[1])["Location"]
    client.post(place, {"password1": "another-long-phrase-8", "password2": "another-long-phrase-8"})
    assert signed_in(client) is None
    sign_in(client, password="another-long-phrase-8")
    assert signed_in(client) == str(ada.pk)


def test_who_came_by_a_link_sets_a_first_password(client: Client) -> None:
    you = create_user("you@localhost")
    client.get(make_login_link(you))
    assert client.get("/account/password/change/")["Location"] == "/account/password/set/"
    assert client.get("/account/2fa/webauthn/add/").status_code == 200  # a passkey will do as well
    client.post("/account/password/set/", {"password1": PASSWORD, "password2": PASSWORD})
    assert User.objects.get(pk=you.pk).check_password(PASSWORD)


def test_nobody_makes_an_account_uninvited(client: Client) -> None:
    assert "by invitation" in text(client.get("/account/signup/"))
    client.post("/account/signup/", {"email": "new@example.org", "password1": PASSWORD})
    assert not User.objects.filter(email="new@example.org").exists()


def test_an_open_site_takes_everybody_once_the_address_is_proved(client: Client, settings: Any) -> None:
    settings.SIGN_UP = "open"
    client.post("/account/signup/", {"email": "New@Example.org", "password1": PASSWORD})
    new = User.objects.get(email="new@example.org")
    assert signed_in(client) is None
    assert not EmailAddress.objects.get(user=new).verified
    code = re.search(r"\b([A-Z0-9]{4}-[A-Z0-9]{4})\b", mail.outbox[-1].body)
    assert code, mail.outbox[-1].body
    client.post("/account/confirm-email/", {"code": code[1]})
    assert signed_in(client) == str(new.pk)


def test_a_weak_password_is_refused_with_the_reason(client: Client, settings: Any) -> None:
    settings.SIGN_UP = "open"
    assert "too short" in text(client.post("/account/signup/", {"email": "new@example.org", "password1": "short"}))
    assert "too common" in text(client.post("/account/signup/", {"email": "new@example.org", "password1": "password123"}))


def test_an_authenticator_app_is_asked_for_and_its_secret_is_sealed(ada: User, client: Client) -> None:
    sign_in(client)
    client.post("/account/reauthenticate/", {"password": PASSWORD})
    page = text(client.get("/account/2fa/totp/activate/"))
    secret = re.search(r'value="([A-Z2-7]{32})"', page)
    assert secret
    client.post("/account/2fa/totp/activate/", {"code": code_of(secret[1])})
    stored = Authenticator.objects.get(user=ada, type="totp").data["secret"]
    assert secret[1] not in stored
    client.post("/logout/")
    assert sign_in(client)["Location"].startswith("/account/2fa/authenticate/")
    assert signed_in(client) is None
    cache.clear()  # a code is good once
    client.post("/account/2fa/authenticate/", {"code": "000000"})
    assert signed_in(client) is None
    client.post("/account/2fa/authenticate/", {"code": code_of(secret[1])})
    assert signed_in(client) == str(ada.pk)


def code_of(secret: str) -> str:
    return format_hotp_value(hotp_value(secret, next(iter(yield_hotp_counters_from_time()))))


def test_what_guards_the_account_asks_once_more_who_one_is(ada: User, client: Client) -> None:
    client.force_login(ada)
    assert client.get("/account/2fa/totp/activate/")["Location"].startswith("/account/reauthenticate/")
    client.post("/account/reauthenticate/", {"password": PASSWORD})
    assert client.get("/account/2fa/totp/activate/").status_code == 200


def test_who_has_only_a_link_is_told_what_to_do(client: Client) -> None:
    you = create_user("you@localhost")
    EmailAddress.objects.filter(user=you).update(verified=False)
    client.force_login(you)
    answer = client.get("/account/2fa/totp/activate/")
    assert answer.status_code == 403
    assert "Sign in again by a link" in text(answer)


def test_signing_out_is_by_a_form_alone(world: World, client: Client) -> None:
    client.force_login(world.owner)
    client.get("/logout/")
    assert signed_in(client) == str(world.owner.pk)
    assert client.post("/logout/")["Location"] == "/login/?left"
    assert signed_in(client) is None
    assert "You are signed out" in text(client.get("/login/?left"))


def test_a_role_is_no_way_around_the_first_page(world: World, client: Client) -> None:
    assert client.get("/runs/")["Location"] == "/login/?next=/runs/"
    assert Role.OWNER in world.team.memberships.values_list("role", flat=True)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("smtp://u:p%40ss@mail.example:2525", ("mail.example", 2525, "u", "p@ss", True, False)),
        ("smtps://mail.example", ("mail.example", 465, "", "", False, True)),
        ("smtp://localhost:25?plain=yes", ("localhost", 25, "", "", False, False)),
    ],
)
def test_a_mail_server_is_named_by_one_address(url: str, said: tuple[object, ...]) -> None:
    server = mail_server(url)
    assert (server.host, server.port, server.user, server.password, server.starttls, server.tls) == said


@pytest.mark.parametrize("url", ["mail.example", "http://mail.example", "smtp://"])
def test_a_mail_server_that_is_not_understood_stops_the_start(url: str) -> None:
    with pytest.raises(Exception, match="Write smtp://"):
        mail_server(url)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[", "not JSON"),
        ("{}", "list of objects"),
        ('[{"provider": "myspace"}]', "known are"),
        ('[{"provider": "github"}]', "no client_id"),
    ],
)
def test_a_file_of_providers_that_is_not_understood_stops_the_start(tmp_path: Any, content: str, said: str) -> None:
    file = tmp_path / "providers.json"
    file.write_text(content)
    with pytest.raises(Exception, match=said):
        providers(file)
    with pytest.raises(Exception, match="cannot be read"):
        providers(tmp_path / "nowhere.json")


def test_providers_of_a_file_are_those_that_allauth_gets(tmp_path: Any) -> None:
    file = tmp_path / "providers.json"
    file.write_text('[{"provider": "github", "client_id": "a", "secret": "b"}]')
    assert providers(file) == {"github": {"APPS": [{"client_id": "a", "secret": "b"}], "OAUTH_PKCE_ENABLED": True}}
    assert providers(None) == {}
