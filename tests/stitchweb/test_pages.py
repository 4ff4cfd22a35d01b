"""Every page: who sees it, what it costs in queries, what it says when there is nothing or no access."""

from __future__ import annotations

import io
import re
import zipfile

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from stitchweb.programs.models import Program, Revision
from stitchweb.runs.models import Run, RunState
from tests.stitchweb.markup import well_formed
from tests.stitchweb.parts_for_tests import REFERENCE
from tests.stitchweb.views_for_tests import story
from tests.stitchweb.world_for_tests import World, make_world, pages_of, tell_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def told() -> World:
    return make_world()


def client_of(user: object) -> Client:
    client = Client()
    client.force_login(user)  # type: ignore[arg-type]
    return client


def test_every_page_is_well_formed_has_one_heading_and_no_inline_style_or_script(told: World) -> None:
    client = client_of(told.owner)
    for name, path in pages_of(told).items():
        response = client.get(path)
        html = response.content.decode()
        assert response.status_code == (404 if name == "not-found" else 200), name
        well_formed(html)
        assert html.count("<h1") == 1, name
        assert " style=" not in html
        assert not re.search(r"<script(?! src=)", html), name
        assert not re.search(r"https?://(?!www\.w3\.org)", re.sub(r"<textarea.*?</textarea>", "", html, flags=re.S)), name


def test_every_page_forbids_what_is_not_its_own(told: World) -> None:
    response = client_of(told.owner).get("/")
    policy = response.headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


def test_a_stranger_is_sent_to_the_login_page(told: World) -> None:
    for name, path in pages_of(told).items():
        response = Client().get(path)
        assert response.status_code == 302, name
        assert response.headers["Location"].startswith("/login/")


def test_somebody_of_another_team_finds_nothing(told: World) -> None:
    client = client_of(told.outsider)
    run = told.done.pk
    for path in (
        f"/runs/{run}/", f"/programs/{told.program.pk}/", f"/suites/{told.suite.pk}/", f"/runs/{run}/candidates/c5/diff",
        f"/runs/{run}/candidates/c5/take-home.zip", f"/runs/{run}/candidates/c5/files/model_new.py",
        f"/runs/{run}/candidates/c5/build.log", f"/runs/{run}/candidates/c5/profile/summary.json",
        f"/programs/{told.program.pk}/source", f"/runs/{run}/plan",
    ):  # fmt: skip
        assert client.get(path).status_code == 404, path
    assert client.post(f"/runs/{run}/control", {"kind": "cancel"}).status_code == 404
    assert "layernorm_gelu" not in client.get("/").content.decode()
    assert "layernorm_gelu" not in client.get("/runs/").content.decode()


def test_a_viewer_watches_and_cannot_steer(told: World) -> None:
    client = client_of(told.viewer)
    page = client.get(f"/runs/{told.live.pk}/")
    assert "read-only" in page.content.decode()
    refused = client.post(f"/runs/{told.live.pk}/control", {"kind": "pause"})
    assert refused.status_code == 403
    assert "this needs a member" in refused.content.decode()
    assert client.get(f"/runs/{told.waiting.pk}/plan").status_code == 403


def test_queries_do_not_grow_with_rows(told: World) -> None:
    client = client_of(told.owner)
    events, blobs = story()

    def counts() -> dict[str, int]:
        found = {}
        for path in ("/", "/runs/", "/status/", f"/programs/{told.program.pk}/", f"/suites/{told.suite.pk}/"):
            with CaptureQueriesContext(
                connection,
            ) as queries:
                assert client.get(path).status_code == 200
            found[path] = len(queries)
        return found

    before = counts()
    for revision in list(Revision.objects.all()):
        tell_run(revision, told.owner, events, blobs)
        tell_run(revision, told.owner, events[:30], blobs)
    assert counts() == before
    assert max(before.values()) <= 16


def test_the_run_page_costs_the_same_for_a_long_run(told: World) -> None:
    client = client_of(told.owner)
    with CaptureQueriesContext(connection) as short:
        client.get(f"/runs/{told.waiting.pk}/")
    with CaptureQueriesContext(connection) as long:
        client.get(f"/runs/{told.done.pk}/")
    assert len(short) <= 14
    assert len(long) - len(short) <= 8  # one per text that is shown: sources, log, profiles


def test_the_library_shows_the_best_run_of_each_program_and_ranks_within_target_and_protocol(told: World) -> None:
    slower = Run.objects.get(pk=told.done.pk)
    slower.pk, slower.speedup, slower.name = None, 1.2, "slower"
    slower.save()
    html = client_of(told.owner).get("/").content.decode()
    assert f"run {told.done.pk}" in html
    assert f"run {slower.pk}<" not in html
    assert "2.01" in html
    assert "1.97–2.05" in html


def test_filters_that_match_nothing_say_so_and_lead_back(told: World) -> None:
    html = client_of(told.owner).get("/?q=zzz").content.decode()
    assert "No program matches." in html
    html = client_of(told.owner).get("/runs/?status=cancelled").content.decode()
    assert "No run matches." in html


def test_an_empty_library_says_what_to_do_next(told: World) -> None:
    Program.objects.all().delete()
    html = client_of(told.owner).get("/").content.decode()
    assert "The library is empty." in html
    assert "/upload/" in html


def test_the_runs_list_goes_on_by_key(told: World) -> None:
    events, blobs = story()
    for _ in range(3):
        tell_run(told.revision, told.owner, events[:3], blobs)
    newest = Run.objects.order_by("-pk").first()
    assert newest is not None
    html = client_of(told.owner).get(f"/runs/?before={newest.pk}").content.decode()
    assert f"run {newest.pk}<" not in html
    assert f"run {newest.pk - 1}<" in html


def test_a_pinned_candidate_and_its_diff_against_the_reference(told: World) -> None:
    client = client_of(told.owner)
    html = client.get(f"/runs/{told.done.pk}/?candidate=c3&against=reference").content.decode()
    assert "c3 against the reference" in html
    assert 'id="pinned"' in html
    assert client.get(f"/runs/{told.done.pk}/?candidate=c99").status_code == 404


def test_the_diff_fragment_shows_another_file(told: World) -> None:
    response = client_of(told.owner).get(f"/runs/{told.done.pk}/candidates/c3/diff?against=reference&file=model_new.py")
    html = response.content.decode()
    well_formed(html)
    assert html.startswith("<section")
    assert "ctypes" in html


def test_single_files_and_logs_are_plain_text(told: World) -> None:
    client = client_of(told.owner)
    candidate = f"/runs/{told.done.pk}/candidates/c5"
    for path in (f"{candidate}/files/kernels/ln_gelu.cpp", f"{candidate}/build.log",
                 f"/programs/{told.program.pk}/source"):  # fmt: skip
        response = client.get(path)
        assert response.status_code == 200
        assert response.headers["Content-Type"].startswith("text/plain")
        assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert client.get(f"/runs/{told.done.pk}/candidates/c5/files/../../secret").status_code == 404


def test_the_program_page_shows_source_analysis_and_runs(told: World) -> None:
    html = client_of(told.owner).get(f"/programs/{told.program.pk}/").content.decode()
    assert "8 × 512 × 1024" in html
    assert "native_<wbr>layer_<wbr>norm" in html
    assert "No trivial answer passes" in html
    assert f"run {told.done.pk}" in html
    assert client_of(told.owner).get(f"/programs/{told.program.pk}/?revision=9").status_code == 404


def test_the_suite_page_counts_every_program_in_fast_p(told: World) -> None:
    html = client_of(told.owner).get(f"/suites/{told.suite.pk}/").content.decode()
    assert "33.3" in html
    assert "1 of 3" in html
    assert "no run yet" in html


def test_signing_out_leads_to_a_page_that_says_so(told: World) -> None:
    client = client_of(told.owner)
    response = client.post("/logout/", follow=True)
    assert "You are signed out." in response.content.decode()
    assert client.get("/").status_code == 302


def test_a_spent_link_says_why_it_does_not_work(told: World) -> None:
    response = Client().get("/login/never-was-a-link")
    assert response.status_code == 403
    assert "not known here" in response.content.decode()


def test_error_pages_name_the_thing_and_the_way_out(told: World) -> None:
    html = client_of(told.owner).get("/runs/424242/").content.decode()
    assert "There is no such run" in html
    assert "To the library" in html
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(told.owner)
    refused = strict.post(f"/runs/{told.live.pk}/control", {"kind": "pause"})
    assert refused.status_code == 403
    assert "Nothing was changed" in refused.content.decode()


def test_a_broken_view_answers_with_a_page_that_says_what_is_safe(told: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from stitchweb.runs.views import page

    def broken(*args: object) -> None:
        raise RuntimeError("a secret of the machine")

    monkeypatch.setattr(page, "view_of", broken)
    client = client_of(told.owner)
    client.raise_request_exception = False
    response = client.get(f"/runs/{told.done.pk}/")
    html = response.content.decode()
    assert response.status_code == 500
    assert "nothing that was stored is lost" in html
    assert "secret" not in html


def test_the_zip_of_a_candidate_opens_and_holds_its_sources(told: World) -> None:
    client = client_of(told.owner)
    assert client.get(f"/runs/{told.done.pk}/candidates/c99/take-home.zip").status_code == 404
    _give_state(told.done)
    response = client.get(f"/runs/{told.done.pk}/candidates/c1/take-home.zip")
    assert response.status_code == 200
    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        names = {name.rsplit("/", 1)[-1] for name in archive.namelist()}
    assert {"model_new.py", "README.md", "verify.py", "result.json", "reference.py"} <= names


def _give_state(run: Run) -> None:
    """A state with one candidate, as the reducer would have left it."""
    from agents.state import Candidate
    from stitchweb.runs.blobs import RunBlobs

    state = run.load()
    files = {"model_new.py": RunBlobs(run.pk).put(REFERENCE.replace("Model(", "ModelNew(").encode())}
    made = Candidate(id="c1", parent=None, todo=None, title="the same", files=files, sha256="0" * 64, verdict="verified")
    RunState.objects.filter(run=run).update(state=state.model_copy(update={"candidates": (made,)}).model_dump(mode="json"))


def test_a_candidates_profile_is_drawn_sorted_and_taken_along(told: World) -> None:
    client, run = client_of(told.owner), f"/runs/{told.done.pk}/"
    html = client.get(run).content.decode()
    profile = html[html.index('id="profile-c5"') : html.index('id="checks-c5"')]
    ids = set(re.findall(r' id="([^"]+)"', html))
    evidence = re.findall(r'<li><span><a href="#([^"]+)">', profile)
    assert evidence == ["c5-roofline", "c5-roofline"]
    assert set(evidence) <= ids
    assert re.search(r'vendor/speedscope/index[^"]*\.html#profileURL=%2Fruns%2F\d+%2Fcandidates%2Fc5%2Fprofile%2F', profile)
    assert "LayerNormKernelImpl: 1.87\u00a0ms → gone" in profile
    for name in ("summary.json", "speedscope.json", "kernels.csv"):
        answer = client.get(f"{run}candidates/c5/profile/{name}")
        assert answer.status_code == 200
        assert answer.headers["Content-Disposition"].startswith(f'attachment; filename="layernorm_gelu-{told.done.pk}-c5')
    # A profile of a processor has no timeline, and c1 no profile.
    for place in ("c5/profile/perfetto.json", "c1/profile/summary.json", "c9/profile/summary.json", "c5/profile/x"):
        assert client.get(f"{run}candidates/{place}").status_code == 404, place


def test_to_htmx_a_zoomed_profile_is_the_panel_alone_and_without_it_the_page(told: World) -> None:
    client, place = client_of(told.owner), f"/runs/{told.done.pk}/?candidate=c5&focus=0&sort=name"
    panel = client.get(place, headers={"HX-Request": "true", "HX-Target": "profile-c5"})
    page = client.get(place)
    assert panel.content.decode().startswith('<section class="panel profile" id="profile-c5"')
    assert panel.content.decode() in page.content.decode()
    for answer in (panel, page):
        assert "HX-Target" in answer.headers["Vary"]
        assert 'aria-sort="ascending"' in answer.content.decode()
        assert answer.content.decode().count("zoom out") == 1
