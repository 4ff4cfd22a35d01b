"""The pages about publications: who sees them, what they cost in queries, what they say when there is nothing."""

from __future__ import annotations

import io
import re
import zipfile

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from stitchweb.sharing.models import Publication
from stitchweb.teams.models import Role, User
from stitchweb.teams.services import create_team, create_user, set_role
from tests.stitchweb.markup import well_formed
from tests.stitchweb.sharing_world import Shown, make_shown, publish_told, shown_pages
from tests.stitchweb.views_for_tests import story
from tests.stitchweb.world_for_tests import tell_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def shown() -> Shown:
    return make_shown()


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


ODD = {"publish-refused": 409}


def test_every_page_is_well_formed_has_one_heading_and_nothing_inline(shown: Shown) -> None:
    client = client_of(shown.world.owner)
    for name, path in shown_pages(shown).items():
        response = client.get(path)
        html = response.content.decode()
        assert response.status_code == ODD.get(name, 200), name
        well_formed(html)
        assert html.count("<h1") == 1, name
        assert " style=" not in html, name
        assert not re.search(r"<script(?! src=)", html), name
        assert "<!--" not in html, name
        ids = re.findall(r' id="([^"]+)"', html)
        assert len(ids) == len(set(ids)), name


def test_strangers_find_nothing_and_nobody_signed_in_is_sent_to_sign_in(shown: Shown) -> None:
    outsider = client_of(shown.world.outsider)
    at = shown.second.get_absolute_url()
    for path in (
        at,
        f"{at}edit",
        f"{at}shares/",
        f"{at}bundle.zip",
        f"{at}files/model_new.py",
        shown.collection.get_absolute_url(),
    ):
        assert outsider.get(path).status_code == 404, path
        assert Client().get(path).status_code == 302, path
    for path in (f"{at}withdraw", f"{at}fork", f"{at}comments", f"{at}collect"):
        assert outsider.post(path, {"text": "x"}).status_code == 404, path
    for path in (
        "/published/",
        "/published/?q=rstd",
        "/published/collections/",
        "/published/compare/",
        "/published/leaderboard/",
    ):
        html = outsider.get(path).content.decode()
        assert "LayerNorm + GELU" not in html, path
        assert "layernorm_gelu" not in html, path
        assert "Feed-forward" not in html, path
    assert outsider.get(f"/published/compare/?a=p{shown.first.pk}&b=r{shown.world.done.pk}").status_code == 404
    reference = f"/published/leaderboard/{shown.second.reference}/cpu/"
    assert outsider.get(reference).status_code == 404


def test_a_viewer_reads_and_changes_nothing(shown: Shown) -> None:
    client = client_of(shown.world.viewer)
    at = shown.second.get_absolute_url()
    html = client.get(at).content.decode()
    assert "LayerNorm + GELU" in html
    for words in ("/shares/", "Fork into a run", "Withdraw", f"{at}comments"):
        assert words not in html
    for path in (f"{at}withdraw", f"{at}fork", f"{at}comments", f"{at}collect", f"{at}shares/", at):
        assert client.post(path, {"text": "x"}).status_code == 403, path
    assert client.get(f"/published/new/?run={shown.world.done.pk}&candidate=c5").status_code == 403


def test_members_change_what_they_published_and_maintainers_everything(shown: Shown) -> None:
    at = shown.second.get_absolute_url()
    ben = client_of(shown.ben)
    refused = ben.post(at, {"notes": "mine now", "licence": "MIT"})
    assert refused.status_code == 403
    assert "Somebody else published this." in refused.content.decode()
    assert ben.post(f"{at}withdraw").status_code == 403
    set_role(shown.world.team, shown.ben, Role.MAINTAINER)
    assert ben.post(at, {"notes": "by a maintainer", "licence": "MIT", "tags": "one, two"}).status_code == 302
    row = Publication.objects.get(pk=shown.second.pk)
    assert row.notes == "by a maintainer"
    assert [t.word for t in row.tags.all()] == ["one", "two"]
    assert "by a maintainer" in ben.get(at).content.decode()
    assert ben.get("/published/?q=maintainer").content.decode().count("c-name") == 1


def test_notes_cannot_do_harm(shown: Shown) -> None:
    html = client_of(shown.world.owner).get(shown.second.get_absolute_url()).content.decode()
    assert "<strong>in registers</strong>" in html
    assert "&lt;script&gt;alert(1)" in html
    assert '<a href="https://example.org/welford" rel="nofollow noopener noreferrer">' in html
    assert "<h3>What it does</h3>" in html


def test_a_bad_publish_form_keeps_what_was_written(shown: Shown) -> None:
    client = client_of(shown.world.owner)
    form = {
        "run": shown.world.done.pk,
        "candidate": "c5",
        "name": "LayerNorm + GELU",
        "notes": "Half an hour of work.",
        "licence": "MIT",
    }
    response = client.post("/published/new/", form)
    html = response.content.decode()
    assert response.status_code == 422
    assert "The team has a publication named LayerNorm + GELU." in html
    assert "Half an hour of work." in html
    nul = client.post("/published/new/", form | {"name": "a", "notes": "b\0c"})
    assert nul.status_code == 422
    assert client.post("/published/new/", form | {"licence": "WTFPL"}).status_code == 422
    assert client.get("/published/new/?run=abc").status_code == 404
    done = client.post("/published/new/", form | {"name": "Another name"}, follow=True)
    assert "Another name v1 is published." in done.content.decode()


def test_queries_do_not_grow_with_rows(shown: Shown) -> None:
    client = client_of(shown.world.owner)
    pages = (
        "published",
        "publication",
        "collection",
        "collections",
        "leaderboard",
        "leaderboard-reference",
        "compare",
        "shares",
    )
    paths = {name: path for name, path in shown_pages(shown).items() if name in pages}

    def counts() -> dict[str, int]:
        found = {}
        for name, path in paths.items():
            with CaptureQueriesContext(connection) as queries:
                assert client.get(path).status_code == 200
            found[name] = len(queries)
        return found

    client.get("/published/")
    before = counts()
    events, blobs = story()
    for number in range(4):
        run = tell_run(shown.world.revision, shown.world.owner, events, blobs)
        row = publish_told(shown.ben, run, "c5", name=f"Copy {number}", tags=("norm", f"t{number}"))
        shown.collection.publications.add(row)
    after = counts()
    assert after == before
    assert max(after.values()) <= 40, after


def test_the_empty_library_says_what_to_do(shown: Shown) -> None:
    nemo = create_user("nemo@example.org", name="Nemo")
    create_team(nemo, "Nothing yet")
    client = client_of(nemo)
    assert "Nothing is published yet." in client.get("/published/").content.decode()
    assert "No collection yet." in client.get("/published/collections/").content.decode()
    assert "No run has ended yet." in client.get("/published/leaderboard/").content.decode()
    assert "Nothing matches." in client_of(shown.world.owner).get("/published/?q=zzz").content.decode()


def test_files_are_text_and_the_zip_and_wheel_say_when_they_are_gone(shown: Shown) -> None:
    client, at = client_of(shown.world.owner), shown.second.get_absolute_url()
    for path in ("model_new.py", "kernels/ln_gelu.cpp", "reference.py"):
        response = client.get(f"{at}files/{path}")
        assert response.status_code == 200, path
        assert response.headers["Content-Type"].startswith("text/plain")
    assert client.get(f"{at}files/../../secret").status_code == 404
    assert client.get(f"{at}wheel/other.whl").status_code == 404
    assert client.get(f"{at}bundle.zip").status_code == 404  # the told run has events and no state of candidates
    assert client.get(f"{at}profile/kernels.csv").status_code == 200


def test_a_filter_leaves_what_it_says(shown: Shown) -> None:
    client = client_of(shown.world.owner)

    def names(query: str) -> int:
        return client.get(f"/published/?{query}").content.decode().count('<td class="c-name">')

    assert names("") == 1  # newest versions alone
    assert names("tag=fused-row") == 1
    assert names("tag=other") == 0
    assert names("licence=MIT") == 1
    assert names("licence=internal") == 0
    assert names(f"author={shown.world.owner.pk}") == 1
    assert names(f"author={shown.ben.pk}") == 0
    assert names("target=cpu&label=full-precision") == 1
    assert names("label=reduced-precision") == 0
    assert names("label=no-own-kernels") == 0
    assert names("before=1") == 0
    for odd in ("author=x", "before=99999999999999999999", "label=%00", "q=%00", "q=%22%22%22*", "tag=%F0%9F%92%A9"):
        assert client.get(f"/published/?{odd}").status_code == 200, odd


def test_a_candidate_is_published_from_its_runs_page(shown: Shown) -> None:
    html = client_of(shown.world.owner).get(f"/runs/{shown.world.done.pk}/?candidate=c5").content.decode()
    assert f"/published/new/?run={shown.world.done.pk}&amp;candidate=c5" in html
    failed = client_of(shown.world.owner).get(f"/runs/{shown.world.done.pk}/?candidate=c2").content.decode()
    assert "/published/new/" not in failed


def test_the_zip_of_a_real_state_opens(shown: Shown) -> None:
    from tests.stitchweb.test_pages import _give_state

    _give_state(shown.world.done)
    Publication.objects.filter(pk=shown.second.pk).update(candidate="c1")
    client, at = client_of(shown.world.owner), shown.second.get_absolute_url()
    with zipfile.ZipFile(io.BytesIO(client.get(f"{at}bundle.zip").content)) as archive:
        assert {"model_new.py", "README.md", "verify.py", "result.json", "reference.py"} <= set(archive.namelist())
    name = re.search(r'/wheel/([^"]+\.whl)"', client.get(at).content.decode())
    assert name is not None
    response = client.get(f"{at}wheel/{name[1]}")
    assert response.status_code == 200
    assert f'filename="{name[1]}"' in response.headers["Content-Disposition"]
    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        assert archive.testzip() is None
