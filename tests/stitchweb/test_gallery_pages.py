"""The gallery's pages: every program with its source and what is recorded of it in its present form, counts that add up, and
what stands there when nothing is recorded."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from gpu_runner.contracts import CheckRow, DeviceInfo, HackClass
from gpu_runner.hacks.gallery import Entry, default_folder, read
from gpu_runner.hacks.record import Recorder, begun
from gpu_runner.hacks.trial import Result
from gpu_runner.hands import HandsError
from stitchweb.gallery import catalogue as reading
from tests.conftest import World
from tests.stitchweb.markup import well_formed

pytestmark = pytest.mark.django_db
CPU, CUDA = read(default_folder(), "cpu"), read(default_folder(), "cuda")
DEVICE = DeviceInfo(kind="cpu", name="A <CPU>", target="cpu", cores=2, torch="2.13.0", compiler="g++ 12", sandbox="bubblewrap")
ENTRIES = {entry.name: entry for entry in (*CPU, *CUDA)}
CACHED, KERNEL = ENTRIES["output_cache/by_shape"], ENTRIES["output_cache/native_by_size"]


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that takes the place of the committed records. Empty."""
    monkeypatch.setattr(reading, "recorded", lambda kind: tmp_path / f"{kind}.json")
    return tmp_path


@pytest.fixture
def client(world: World) -> Client:
    client = Client()
    client.force_login(world.viewer)
    return client


def record(folder: Path, entry: Entry, outcome: str, kind: str = "cpu", **more: object) -> Recorder:
    """Put a result of this program into a record."""
    names = {e.name for e in (CPU if kind == "cpu" else CUDA)}
    writer = Recorder(folder / f"{kind}.json", kind, begun(DEVICE, "python -m gpu_runner hacks"), names)  # type: ignore[arg-type]
    writer.add(entry, Result(name=entry.name, hack=entry.hack, outcome=outcome, **{"verdict": "hack", **more}), 12.5)  # type: ignore[arg-type]
    return writer


def page(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    text = answer.content.decode()
    well_formed(text)
    return text


def said(text: str) -> str:
    """What stands on the page, without markup."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text)))


def test_every_program_has_its_place_with_what_it_does_and_its_source(client: Client, records: Path) -> None:
    for folder in sorted({name.split("/")[0] for name in ENTRIES}):
        text = page(client, f"/gallery/{folder}/")
        shown = said(text)
        for entry in (e for e in ENTRIES.values() if e.name.split("/")[0] == folder):
            anchor = entry.name.split("/", 1)[1].replace("/", "-")
            assert text.count(f'id="{anchor}"') == 1, entry.name
            assert entry.says in shown, entry.name
            for path, source in entry.candidate.files.items():
                last = source.rstrip().splitlines()[-1].strip()
                assert re.sub(r"\s+", "", last) in re.sub(r"\s+", "", shown), (entry.name, path)


def test_every_class_is_listed_and_leads_to_its_page(client: Client, records: Path) -> None:
    text = page(client, "/gallery/")
    for kind in set(HackClass) - {HackClass.OTHER}:
        assert f'href="/gallery/{kind}/"' in text
        assert client.get(f"/gallery/{kind}/").status_code == 200
    assert client.get("/gallery/honest/").status_code == 200
    assert client.get("/gallery/other/").status_code == 200
    assert client.get("/gallery/no_such_class/").status_code == 404


def test_without_a_record_the_page_says_that_nothing_was_run_and_how_to_run_it(client: Client, records: Path) -> None:
    shown = said(page(client, "/gallery/"))
    for kind, entries in (("cpu", CPU), ("cuda", CUDA)):
        assert f"Not run on {kind} yet. There are {len(entries)} programs for it." in shown
        assert f"--target {kind} --record gpu_runner/hacks/results/{kind}.json" in shown
    assert "missed 0" not in shown


def test_counts_are_of_recorded_results_with_where_and_when(client: Client, records: Path) -> None:
    record(records, CACHED, "rejected")
    record(records, KERNEL, "missed")
    record(records, ENTRIES["honest/caches/workspace"], "accepted")
    text = page(client, "/gallery/")
    shown = said(text)
    assert "Cheats missed 1 of 2 rejected 1 neutralised 0 missed 1" in shown
    assert "Honest programs refused 0 of 1 accepted 1 refused 0" in shown
    assert f"{len(CPU) - 3} programs have no recorded result in their present form." in shown
    assert "A &lt;CPU&gt;, 2 cores" in text
    assert "3 runs, the last" in shown
    assert "Not run on cuda yet." in shown


def test_a_result_shows_the_check_the_sentence_and_its_own_origin(client: Client, records: Path) -> None:
    row = CheckRow(group="declared", name="declared draw 2", value="max error 1.1e-06 × rms", limit="0.0001", passed=False)
    record(records, CACHED, "rejected", named=CACHED.hack, said="It is <b>that of</b> draw 1.", caught=row.name, row=row)
    text = page(client, "/gallery/output_cache/")
    shown = said(text)
    assert "Declared draw 2 : max error 1.1e-6 × rms, limit 0.0001" in shown
    assert "It is <b>that of</b> draw 1." in shown
    assert "<b>that of</b>" not in text
    assert "A <CPU>, torch 2.13.0" in shown
    assert "Not judged on cuda yet." in shown


def test_a_result_of_an_earlier_form_of_a_program_is_not_shown_as_its_result(client: Client, records: Path) -> None:
    record(records, CACHED, "rejected", said="An old sentence.")
    file = records / "cpu.json"
    file.write_text(file.read_text().replace(CACHED.sha256, "0" * 64))
    shown = said(page(client, "/gallery/output_cache/"))
    assert "It was changed since it was last judged." in shown
    assert "An old sentence." not in shown
    assert "Not run on cpu yet." in said(page(client, "/gallery/"))


def test_a_new_record_is_shown_without_a_restart(client: Client, records: Path) -> None:
    assert "Not run on cpu yet." in said(page(client, "/gallery/"))
    record(records, CACHED, "rejected")
    assert "Not run on cpu yet." not in said(page(client, "/gallery/"))


@pytest.mark.parametrize(
    ("query", "there", "gone"),
    [
        ("class=output_cache", ["by shape", "native by size"], ["typical value"]),
        ("target=cpu&result=missed", ["native by size"], ["by shape", "typical value"]),
        ("result=accepted", ["workspace"], ["by shape"]),
        ("class=output_cache&result=accepted", ["No program fits."], ["by shape"]),
        ("target=cuda&result=rejected", ["No program fits."], ["by shape"]),
        ("class=%00%27&target=<x>", ["No program fits."], ["<x>"]),
    ],
)
def test_a_filter_leaves_the_programs_that_fit(
    client: Client, records: Path, query: str, there: list[str], gone: list[str]
) -> None:
    record(records, CACHED, "rejected")
    record(records, KERNEL, "missed")
    record(records, ENTRIES["honest/caches/workspace"], "accepted")
    shown = said(page(client, f"/gallery/?{query}"))
    found = shown[shown.index("Show programs") :]
    assert all(text in found for text in there), found[:400]
    assert not any(text in found for text in gone)


def test_honest_programs_on_the_same_reference_stand_beside_a_class(client: Client, records: Path) -> None:
    twins = {
        e.name.split("/")[-1].replace("_", " ") for e in ENTRIES.values() if not e.hack and e.reference == CACHED.reference
    }
    beside = said(page(client, "/gallery/output_cache/").split("<aside")[1])
    assert twins
    assert all(title in beside for title in twins)


def test_a_record_that_cannot_be_read_and_a_missing_gallery_are_told(
    client: Client, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (records / "cpu.json").write_text('{"kind": "cpu", "results": [{}]}')
    assert "Not run on cpu yet." in said(page(client, "/gallery/"))

    def gone() -> None:
        raise HandsError("There is no gallery in /nowhere.")

    monkeypatch.setattr(reading, "_entries", gone)
    reading._catalogue.cache_clear()
    for path in ("/gallery/", "/gallery/output_cache/", "/gallery/honest/"):
        assert "There is no gallery in /nowhere." in said(page(client, path))
    reading._catalogue.cache_clear()


def test_the_gallery_costs_the_database_nothing_but_who_asks(client: Client, records: Path) -> None:
    for path in ("/gallery/", "/gallery/?result=rejected", "/gallery/honest/"):
        with CaptureQueriesContext(connection) as queries:
            page(client, path)
        assert len(queries) == 2, path  # session and person


def test_only_people_of_the_site_see_it() -> None:
    assert Client().get("/gallery/").status_code == 302
    assert Client().get("/gallery/honest/").status_code == 302
