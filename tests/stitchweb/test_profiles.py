"""Reports that people bring: read in a process of its own, their owner's alone, one sentence when they cannot be read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from gpu_runner.profile import read_profile
from stitchweb.runs import imports
from stitchweb.runs.evidence import METRICS
from stitchweb.runs.models import ImportedProfile
from stitchweb.teams.models import User
from stitchweb.teams.services import create_user
from tests.gpu_runner.profile_files import SAMPLES
from tests.stitchweb.markup import well_formed

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "Sync-bound: the GPU is idle 44 % of the time because the host waited for it before going on."


@pytest.fixture
def ada() -> User:
    return create_user("ada@example.org", name="Ada")


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def upload(name: str, data: bytes | None = None) -> SimpleUploadedFile:
    return SimpleUploadedFile(name, (SAMPLES / name).read_bytes() if data is None else data)


def kept(user: User, name: str = "report.sqlite", **changed: Any) -> ImportedProfile:
    """A profile as an import leaves it."""
    summary = read_profile([SAMPLES / "nsys.sqlite", SAMPLES / "ncu_raw.csv"], range_name="step", warmup=1) | changed
    return ImportedProfile.objects.create(owner=user, key=name, name=name, size=1, tool="nsys", summary=summary)


def test_reports_become_a_page_with_the_pictures_of_a_run(ada: User) -> None:
    client = client_of(ada)
    files = [upload("nsys.sqlite"), upload("ncu_raw.csv")]
    asked = {"files": files, "range_name": "step", "warmup": "1"}
    answer = client.post("/profiles/", asked)
    row = ImportedProfile.objects.get()
    assert answer.headers["Location"] == f"/profiles/{row.pk}/"
    assert (row.name, row.tool, row.sentence) == ("nsys.sqlite and ncu_raw.csv", "nsys", SENTENCE)
    html = client.get(f"/profiles/{row.pk}/").content.decode()
    well_formed(html)
    ids = set(re.findall(r' id="([^"]+)"', html))
    for picture in ("causes", "flame", "timeline", "roofline", "kernels", "ops", "copies", "calls"):
        assert f"p{row.pk}-{picture}" in ids
    links = re.findall(r'<li><span><a href="#([^"]+)">', html)
    assert f"p{row.pk}-causes-sync" in links
    assert set(links) <= ids
    assert row.name in client.get("/profiles/").content.decode()
    for file in files:
        file.seek(0)
    assert client.post("/profiles/", asked).headers["Location"] == f"/profiles/{row.pk}/"  # the same reports once more
    assert ImportedProfile.objects.count() == 1


REFUSED = {
    "a name of another kind": ("report.txt", b"x", "no report that is read here"),
    "an empty file": ("report.json", b"", "empty"),
    "a trace without events": ("report.json", b'{"traceEvents": 7}', "holds no traceEvents"),
    "a database of somebody else": ("x.sqlite", b"SQLite format 3\0" + bytes(84), "not"),
    "a zip": ("report.csv", b"PK\x03\x04", "zip archive"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_in_one_sentence_and_nothing_is_kept(ada: User, case: str) -> None:
    name, data, words = REFUSED[case]
    answer = client_of(ada).post("/profiles/", {"files": [upload(name, data)], "range_name": "mine"})
    html = answer.content.decode()
    assert answer.status_code == 422
    well_formed(html)
    alert = re.search(r'role="alert".*?</div>', html, re.S)
    assert alert
    assert words in alert.group()
    assert "Traceback" not in html
    assert "stitchweb-report" not in html
    assert 'value="mine"' in html  # what was written stays in the form
    assert not ImportedProfile.objects.exists()


def test_a_form_without_a_file_says_so(ada: User) -> None:
    assert "No file was chosen" in client_of(ada).post("/profiles/", {}).content.decode()


def test_a_body_that_is_too_large_is_refused_before_it_is_read(ada: User, settings: Any) -> None:
    settings.MAX_PROFILE_MB = 0
    answer = client_of(ada).post("/profiles/", {"files": [upload("nsys.sqlite")]})
    assert answer.status_code == 413
    assert "the most that is taken" in answer.content.decode()


def test_the_form_is_protected_though_its_size_is_looked_at_first(ada: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(ada)
    assert client.post("/profiles/", {"files": [upload("nsys.sqlite")]}).status_code == 403


def test_a_profile_is_its_owners_alone(ada: User) -> None:
    row = kept(ada)
    oscar = client_of(create_user("oscar@example.org", name="Oscar"))
    mine = kept(User.objects.get(email="oscar@example.org"))
    for path in (f"/profiles/{row.pk}/", f"/profiles/{row.pk}/files/summary.json", f"/profiles/{mine.pk}/?before={row.pk}"):
        assert oscar.get(path).status_code == 404, path
        assert Client().get(path).status_code == 302, path
    assert oscar.post(f"/profiles/{row.pk}/delete").status_code == 404
    assert f"/profiles/{row.pk}/" not in oscar.get("/profiles/").content.decode()
    assert client_of(ada).get(f"/profiles/{row.pk}/").status_code == 200


def test_a_profile_is_deleted_by_a_button_and_not_by_a_link(ada: User) -> None:
    row, client = kept(ada), client_of(ada)
    assert client.get(f"/profiles/{row.pk}/delete").status_code == 405
    assert "report.sqlite is deleted" in client.post(f"/profiles/{row.pk}/delete", follow=True).content.decode()
    assert not ImportedProfile.objects.exists()


def test_the_list_costs_the_same_however_long_it_is_and_is_bounded(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(ada)
    assert "None yet" in client.get("/profiles/").content.decode()
    kept(ada)
    with CaptureQueriesContext(connection) as few:
        client.get("/profiles/")
    for number in range(4):
        kept(ada, f"r{number}.csv")
    with CaptureQueriesContext(connection) as many:
        client.get("/profiles/")
    assert len(many) == len(few)
    assert not any('"summary"' in query["sql"] for query in many)  # which may be large
    monkeypatch.setattr(imports, "MOST", 5)
    assert "delete one of them first" in client.post("/profiles/", {"files": [upload("nsys.sqlite")]}).content.decode()


def test_two_profiles_are_held_against_each_other(ada: User) -> None:
    before, after = kept(ada), kept(ada, "after.sqlite", kernels=[])
    html = client_of(ada).get(f"/profiles/{after.pk}/?before={before.pk}").content.decode()
    well_formed(html)
    assert "Kernel by kernel" in html
    assert "104\u00a0µs → gone" in html
    assert f"before={before.pk}&amp;focus=" in html  # zooming keeps what it is held against


def test_to_htmx_a_profile_is_its_pictures_alone(ada: User) -> None:
    row = kept(ada)
    panel = f"profile-p{row.pk}"
    answer = client_of(ada).get(f"/profiles/{row.pk}/?sort=name&focus=0", headers={"HX-Request": "true", "HX-Target": panel})
    html = answer.content.decode()
    assert html.lstrip().startswith(f'<section class="panel profile" id="{panel}"')
    assert "HX-Target" in answer.headers["Vary"]
    assert 'aria-sort="ascending"' in html
    assert "zoom out" in html


FILES = {
    "summary.json": "application/json", "perfetto.json": "application/json", "speedscope.json": "application/json",
    "kernels.csv": "text/csv; charset=utf-8",
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_profile_is_taken_along_under_its_name_and_type(ada: User, name: str) -> None:
    row = kept(ada, '<b>"Größe".sqlite')
    answer = client_of(ada).get(f"/profiles/{row.pk}/files/{name}")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, FILES[name])
    assert answer.headers["Content-Disposition"] == f'attachment; filename="bgroesqlite-{name}"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    if name == "summary.json":
        assert answer.json() == row.summary
    elif name == "speedscope.json":
        assert sum(answer.json()["profiles"][0]["weights"]) == row.summary["tree"]["value_ns"]
    elif name == "perfetto.json":
        assert any(event.get("name") == "sync" for event in answer.json()["traceEvents"])
    else:
        lines = answer.content.decode().splitlines()
        assert len(lines) == 1 + len(row.summary["kernels"])


def test_no_cell_of_the_table_is_a_formula(ada: User) -> None:
    kernel = {"name": '=HYPERLINK("http://x")', "origin": "own", "count": 1, "total_ns": -5}
    row = kept(ada, kernels=[kernel])
    text = client_of(ada).get(f"/profiles/{row.pk}/files/kernels.csv").content.decode()
    assert text.splitlines()[1].startswith('"\'=HYPERLINK(""http://x"")",own,1,-5,')


@pytest.mark.parametrize(
    "changed",
    [
        {"tree": 7, "kernels": {}, "timeline": [], "target": None, "source": "x", "device": [], "figures": 3, "verdicts": {}},
        {"kernels": [None, {"key": 3}], "verdicts": [3, {"evidence": [None, {"metric": 5}]}], "ops": [{}], "api": [7]},
        {"tree": {"value_ns": 5, "name": None, "children": None}, "timeline": {"wall_ns": 5, "gaps": [{}], "streams": [{}]}},
    ],
)
def test_a_summary_of_another_shape_is_shown_without_what_it_lacks(ada: User, changed: dict[str, Any]) -> None:
    row, client = kept(ada, **changed), client_of(ada)
    other = kept(ada, "other")
    for path in (f"/profiles/{row.pk}/", f"/profiles/{row.pk}/?before={other.pk}", f"/profiles/{other.pk}/?before={row.pk}"):
        answer = client.get(path)
        assert answer.status_code == 200, path
        well_formed(answer.content.decode())
    for name in FILES:
        assert client.get(f"/profiles/{row.pk}/files/{name}").status_code in (200, 404)
    assert client.get(f"/profiles/{row.pk}/files/other.json").status_code == 404


def test_every_piece_of_evidence_has_words_of_its_own() -> None:
    rules = "".join(path.read_text() for path in (ROOT / "gpu_runner" / "profile").glob("*.py"))
    metrics = set(re.findall(r'\bfact\(\s*"(\w+)"', rules))
    assert len(metrics) > 20
    assert metrics <= METRICS.keys()


def test_estimates_the_least_time_and_what_no_tool_could_say_are_shown_as_such(ada: User) -> None:
    estimated = {"status": "estimated", "compute_sol_pct": 4.0, "memory_sol_pct": 72.0, "flop_rate": 2e9, "intensity": 0.25}
    kernel = {"key": "aten::gelu", "short_name": "gelu", "count": 1, "total_ns": 10, "counters": estimated}
    tools = [
        {"tool": "ncu", "status": "unavailable", "reason": "no_permission", "sentence": "The counters are for administrators."}
    ]
    roof = {"bound": "memory", "least_ns": 1_570_000, "reached_pct": 72.0}
    row = kept(ada, kernels=[kernel], collectors=tools, roof=roof, device={"kind": "cpu"})
    html = client_of(ada).get(f"/profiles/{row.pk}/").content.decode()
    well_formed(html)
    assert "Per cent of peak, an estimate from shapes" in html
    assert "1.57\u00a0ms by memory&#x27;s ceiling, 72\u00a0% reached" in html
    assert "without Nsight Compute: The counters are for administrators." in html


def test_evidence_about_a_kernel_leads_to_that_kernels_own_picture(ada: User) -> None:
    def kernel(key: str) -> dict[str, Any]:
        counters = {"stalls": [{"reason": "barrier", "share_pct": 40.0}], "compute_sol_pct": 5.0, "memory_sol_pct": 6.0}
        return {"key": key, "short_name": key, "counters": counters}

    fact = {"metric": "stall_share_pct", "value": 40.0, "unit": "%", "threshold": 30.0, "shown_in": "stalls:barrier"}
    said = {"class": "latency: stalls", "sentence": "second waits.", "kernel": "second", "evidence": [fact]}
    row = kept(ada, kernels=[kernel("first"), kernel("second")], verdicts=[said])
    html = client_of(ada).get(f"/profiles/{row.pk}/").content.decode()
    assert re.findall(r'<li><span><a href="#([^"]+)">largest stall', html) == [f"p{row.pk}-k1-stalls-barrier"]
