"""Share links: what they show and nothing else, their passwords, their ends, their pictures."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.test import Client
from django.utils import timezone

from stitchweb.sharing.access import digest_of
from stitchweb.sharing.models import ShareLink, WrongPassword
from stitchweb.sharing.services.linking import WRONG_PER_ADDRESS, LinkRefused, LinkWish, make_link, revoke
from stitchweb.sharing.services.publishing import withdraw
from stitchweb.sharing.signals import shared as shared_signal
from stitchweb.teams.models import Team
from tests.stitchweb.sharing_world import Shown, make_shown

pytestmark = pytest.mark.django_db


@pytest.fixture
def shown() -> Shown:
    shown = make_shown()
    Team.objects.filter(pk=shown.world.team.pk).update(name="Marmot crew", slug="marmot-crew")
    return shown


def link(shown: Shown, **wish: object) -> tuple[ShareLink, str]:
    return make_link(shown.world.owner, shown.second.pk, LinkWish(**wish))  # type: ignore[arg-type]


def texts_behind(token: str, client: Client | None = None) -> dict[str, str]:
    """Everything a stranger can reach from the page: its source, and each address of this site in it."""
    client = client or Client()
    found = {f"/s/{token}/": client.get(f"/s/{token}/").content.decode()}
    for path in re.findall(r'(?:href|src|hx-get|data-copy|content)="(?:http://[^/"]+)?(/s/[^"#]*)', found[f"/s/{token}/"]):
        path = unescape(path)
        if path not in found:
            response = client.get(path)
            found[path] = str(response.headers) + b"".join([response.content]).decode("latin-1")
    return found


def hidden_from_strangers(shown: Shown) -> list[str]:
    run = shown.world.done
    return [
        "Marmot", "marmot", "example.org\"", "@example", "Ada", "Byron", "Ben Ng", "Feed-forward", "vision team", "rita",
        f"/runs/{run.pk}", f"run {run.pk}", f"/published/{shown.second.pk}", f"/programs/{shown.world.program.pk}",
    ]  # fmt: skip


def test_a_link_shows_what_was_chosen_and_nothing_of_the_team(shown: Shown) -> None:
    for pages in (texts_behind(shown.token), texts_behind(link(shown, numbers=True)[1])):
        for path, text in pages.items():
            for word in hidden_from_strangers(shown):
                assert word not in text, (path, word)


PARTS = {
    "numbers": ("Over torch.compile", "Timing of v2"),
    "code": ("Text of kernels/ln_gelu.cpp", "/files/kernels/ln_gelu.cpp"),
    "notes": ("in registers",),
    "profile": ("Kernels and operations",),
}


@pytest.mark.parametrize("part", list(PARTS))
def test_each_part_is_there_when_it_was_chosen_and_only_then(shown: Shown, part: str) -> None:
    _, alone = link(shown, **({"numbers": False} | {part: True}))
    page = Client().get(f"/s/{alone}/").content.decode()
    for name, words in PARTS.items():
        for word in words:
            assert (word in page) == (name == part), (name, word)
    others = [p for p in PARTS if p != part]
    _, rest = link(shown, **{"numbers": False} | dict.fromkeys(others, True))
    page = Client().get(f"/s/{rest}/").content.decode()
    assert PARTS[part][0] not in page


def test_files_behind_a_link_follow_the_choice(shown: Shown) -> None:
    _, code = link(shown, code=True)
    _, bare = link(shown)
    assert Client().get(f"/s/{code}/files/model_new.py").status_code == 200
    assert Client().get(f"/s/{bare}/files/model_new.py").status_code == 404
    assert Client().get(f"/s/{bare}/profile/kernels.csv").status_code == 404
    assert Client().get(f"/s/{bare}/wheel/stitchweb_layernorm_gelu-2-py3-none-any.whl").status_code == 404
    assert Client().get(f"/s/{code}/files/nothing.py").status_code == 404


def test_the_labels_stay_in_sight(shown: Shown) -> None:
    row = shown.second
    row.labels = ["reduced-precision", "no-own-kernels", "degenerate"]
    row.degenerate, row.speed = True, "not-claimed"
    row.save()
    token = link(shown)[1]
    page = Client().get(f"/s/{token}/").content.decode()
    card = Client().get(f"/s/{token}/card.svg").content.decode()
    badge = Client().get(f"/s/{token}/badge.svg").content.decode()
    listed = Client()
    listed.force_login(shown.world.owner)
    for text in (page, listed.get("/published/").content.decode()):
        for label in ("reduced-precision", "no-own-kernels", "degenerate"):
            assert label in text
    for text in (card, badge):
        for label in ("reduced precision", "no own kernels", "degenerate"):
            assert label in text
        assert "×" not in text
    assert "No speed is claimed." in page


def test_no_search_engine_keeps_a_page_and_no_cache_does(shown: Shown) -> None:
    for path in (
        f"/s/{shown.token}/",
        f"/s/{shown.locked}/",
        f"/s/{shown.token}/files/model_new.py",
        f"/s/{shown.token}/card.svg",
    ):
        response = Client().get(path)
        assert response.headers["X-Robots-Tag"] == "noindex, nofollow, noarchive", path
        assert response.headers["Referrer-Policy"] == "same-origin", path
    assert Client().get(f"/s/{shown.token}/").headers["Cache-Control"] == "private, no-store"
    assert '<meta name="robots" content="noindex' in Client().get(f"/s/{shown.token}/").content.decode()
    robots = Client().get("/robots.txt")
    assert robots.content.decode() == "User-agent: *\nAllow: /s/\nDisallow: /\n"


def test_only_the_digest_of_a_token_is_kept_and_it_is_shown_once(shown: Shown, settings: object) -> None:
    client = Client()
    client.force_login(shown.world.owner)
    at = f"{shown.second.get_absolute_url()}shares/"
    html = client.post(at, {"shows_numbers": "on", "life": "week", "label": "for review"}).content.decode()
    token = re.search(r"/s/([\w-]+)/</code>", html)
    assert token is not None
    row = ShareLink.objects.get(label="for review")
    assert row.token_sha256 == digest_of(token[1])
    assert token[1] not in str(ShareLink.objects.values_list())
    again = client.get(at)
    assert token[1] not in again.content.decode()
    assert again.headers["Cache-Control"] == "no-store"
    assert Client().get(f"/s/{token[1]}/").status_code == 200


def test_a_revoked_an_expired_and_a_withdrawn_link_say_so_and_show_nothing(shown: Shown) -> None:
    first, second, third = (link(shown, code=True) for _ in range(3))
    revoke(shown.world.owner, shown.second.pk, first[0].pk)
    ShareLink.objects.filter(pk=second[0].pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    for token, why in ((first[1], "has revoked it"), (second[1], "has expired")):
        for path in (f"/s/{token}/", f"/s/{token}/files/model_new.py", f"/s/{token}/badge.svg", f"/s/{token}/card.svg"):
            response = Client().get(path)
            assert response.status_code == 410, path
            assert why in response.content.decode()
            assert "LayerNorm" not in response.content.decode()
            assert response.headers["Cache-Control"] == "private, no-store"
    withdraw(shown.world.owner, shown.second.pk)
    assert "was withdrawn" in Client().get(f"/s/{third[1]}/").content.decode()
    assert Client().get("/s/never-was-a-token/").status_code == 404


def test_opened_pages_are_counted_and_asking_for_the_head_is_not(shown: Shown) -> None:
    row, token = link(shown)
    Client().get(f"/s/{token}/")
    Client().head(f"/s/{token}/")
    Client().get(f"/s/{token}/")
    Client().get(f"/s/{token}/badge.svg")
    row.refresh_from_db()
    assert row.views == 2
    assert row.viewed_at is not None


def test_a_password_opens_everything_behind_it_and_nothing_opens_without(shown: Shown) -> None:
    client, at = Client(), f"/s/{shown.locked}/"
    assert "open sesame" not in str(ShareLink.objects.values_list())
    locked = client.get(at).content.decode()
    assert "A password, please" in locked
    assert "LayerNorm" not in locked
    assert client.get(f"{at}files/model_new.py").status_code == 404
    for picture in ("badge.svg", "card.svg"):
        assert "LayerNorm" not in client.get(at + picture).content.decode()
    assert client.post(at, {"password": "open says me"}).status_code == 403
    assert client.post(at, {"password": "open sesame"}).status_code == 302
    assert "LayerNorm" in client.get(at).content.decode()
    assert client.get(f"{at}files/model_new.py").status_code == 200
    assert 'og:image"' not in client.get(at).content.decode()
    assert Client().get(f"{at}files/model_new.py").status_code == 404


def test_wrong_passwords_are_bounded_per_address_and_per_link(shown: Shown) -> None:
    at = f"/s/{shown.locked}/"
    for _ in range(WRONG_PER_ADDRESS):
        assert Client().post(at, {"password": "guess"}).status_code == 403
    answer = Client().post(at, {"password": "open sesame"})
    assert answer.status_code == 429
    assert "Try again in 15 minutes" in answer.content.decode()
    elsewhere = {"REMOTE_ADDR": "203.0.113.9"}
    assert Client().post(at, {"password": "open sesame"}, **elsewhere).status_code == 302
    row = ShareLink.objects.get(token_sha256=digest_of(shown.locked))
    WrongPassword.objects.bulk_create(WrongPassword(link=row, who=str(n)) for n in range(50))
    assert Client().post(at, {"password": "open sesame"}, **elsewhere).status_code == 429
    WrongPassword.objects.update(at=timezone.now() - timedelta(minutes=16))
    assert Client().post(at, {"password": "open sesame"}).status_code == 302
    assert not WrongPassword.objects.exists()


def test_a_link_that_cannot_be_is_refused_with_a_way_out(shown: Shown) -> None:
    with pytest.raises(LinkRefused, match="would show nothing"):
        link(shown, numbers=False)
    with pytest.raises(LinkRefused, match="at least 8"):
        link(shown, password="short")
    with pytest.raises(LinkRefused, match="from the list"):
        link(shown, life="century")
    withdraw(shown.world.owner, shown.second.pk)
    with pytest.raises(LinkRefused, match="was withdrawn"):
        link(shown)
    assert ShareLink.objects.count() == 2


def test_members_revoke_their_own_links_and_maintainers_all(shown: Shown) -> None:
    row, token = link(shown)
    client = Client()
    client.force_login(shown.ben)
    path = f"{shown.second.get_absolute_url()}shares/{row.pk}/revoke"
    assert client.post(path).status_code == 403
    client.force_login(shown.world.owner)
    assert client.post(path).status_code == 302
    assert Client().get(f"/s/{token}/").status_code == 410
    assert client.post(f"{shown.first.get_absolute_url()}shares/{row.pk}/revoke").status_code == 404


def test_badge_and_card_say_the_number_with_all_it_stands_on_and_are_asked_for_anew(shown: Shown) -> None:
    token = link(shown)[1]
    row = shown.second
    for name in ("badge.svg", "card.svg"):
        response = Client().get(f"/s/{token}/{name}")
        svg = response.content.decode()
        assert response.headers["Content-Type"] == "image/svg+xml"
        assert response.headers["Cache-Control"] == "public, no-cache, max-age=0"
        assert "sandbox" in response.headers["Content-Security-Policy"]
        over = row.over_baseline
        assert over is not None
        for said in (f"{over.value:.2f}×", f"{over.low:.2f}", f"{over.high:.2f}", row.protocol, row.target):
            assert said in svg, (name, said)
        assert "<script" not in svg
        assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
        tag = response.headers["ETag"]
        assert Client().get(f"/s/{token}/{name}", headers={"if-none-match": tag}).status_code == 304
        row.name = f"Another <b>, {name}"
        row.save()
        renewed = Client().get(f"/s/{token}/{name}", headers={"if-none-match": tag})
        assert renewed.status_code == 200
        assert "Another &lt;b&gt;" in renewed.content.decode()
    bare = link(shown, numbers=False, code=True)[1]
    assert "×" not in Client().get(f"/s/{bare}/card.svg").content.decode()


def test_the_preview_names_the_program_and_its_picture(shown: Shown) -> None:
    html = Client().get(f"/s/{shown.token}/").content.decode()
    told = dict(re.findall(r'<meta property="(og:[\w:]+)" content="([^"]*)"', html))
    assert told["og:title"] == "LayerNorm + GELU v2"
    assert "protocol" in told["og:description"]
    assert told["og:image"].endswith("/card.svg")
    assert told["og:url"].endswith(f"/s/{shown.token}/")


def test_who_is_told_of_a_link_is_told_after_the_commit_and_not_its_token(
    shown: Shown, django_capture_on_commit_callbacks: object
) -> None:
    heard: list[dict[str, object]] = []
    listen = lambda **facts: heard.append(facts)  # noqa: E731
    shared_signal.connect(listen)
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        row, token = link(shown)
    shared_signal.disconnect(listen)
    assert [fact["link"] for fact in heard] == [row]
    assert token not in str(heard)
