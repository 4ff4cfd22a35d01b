"""Runs that were not driven here: taken in from a headless folder, or made up by seed_demo."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from agents.engineers.scripted import Scripted
from agents.events import View, fold_all
from agents.folder import RunFolder
from agents.headless import optimize
from stitchweb.programs.models import Program
from stitchweb.runs import history
from stitchweb.runs.demo.store import Size, seed
from stitchweb.runs.importing import CannotImport, import_folder
from stitchweb.runs.models import Event, Run
from stitchweb.runs.sweeper import sweep
from stitchweb.teams.models import Team
from tests.agents.loop_world import FakeHands, options, program, scripted_name, todo
from tests.conftest import REFERENCE, World


@pytest.fixture(scope="module")
def headless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that ended elsewhere, as its folder."""
    folder = RunFolder(tmp_path_factory.mktemp("headless") / "run")
    engineer = scripted_name(Scripted(plans=[(todo(),)], codes=[program("one")]))
    state = optimize(REFERENCE, options(engineer), FakeHands(), folder.blobs, folder.tell, name="layernorm.py")
    folder.close(state)
    return folder.root


@pytest.fixture
def folder(headless: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(headless, tmp_path / "copy"))


def told_by(run: Run) -> list[Any]:
    return [row.contract for row in Event.objects.filter(run=run).order_by("seq")]


def test_a_headless_run_becomes_a_run_with_the_same_page(world: World, folder: Path) -> None:
    run = import_folder(folder, world.team, world.owner)
    assert (run.verdict, run.best, run.ended) == ("verified", "c1", True)
    view = history.view_of(run.pk)
    assert view == fold_all(View(), told_by(run))
    assert view.header is not None
    assert view.header.run == str(run.pk)
    assert run.revision.text == REFERENCE
    assert run.blobs.count() == len(list((folder / "blobs").glob("*/*")))


def test_the_command_takes_a_folder_into_the_named_team(world: World, folder: Path) -> None:
    out = StringIO()
    call_command("import_run", str(folder), team=world.team.slug, stdout=out)
    assert out.getvalue().strip().endswith(f"/runs/{Run.objects.get().pk}/")


def test_the_command_names_the_address_at_which_the_site_runs(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stitchweb.core.embedded.running.address", lambda *_: "http://127.0.0.1:8123")
    out = StringIO()
    call_command("import_run", str(folder), team=world.team.slug, stdout=out)
    assert out.getvalue().strip() == f"http://127.0.0.1:8123/runs/{Run.objects.get().pk}/"


def damage_blob(folder: Path) -> None:
    next(iter((folder / "blobs").glob("*/*"))).write_bytes(b"something else")


def lose_an_event(folder: Path) -> None:
    lines = (folder / "events.jsonl").read_text().splitlines()
    (folder / "events.jsonl").write_text("\n".join(lines[:3] + lines[4:]))


def lose_the_state(folder: Path) -> None:
    (folder / "state.json").unlink()


def be_of_another_version(folder: Path) -> None:
    (folder / "state.json").write_text('{"schema_version": 99}')


def edit_state(change: Callable[[Any], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        state = json.loads((folder / "state.json").read_text())
        change(state)
        (folder / "state.json").write_text(json.dumps(state))

    return damage


def edit_event(change: dict[str, Any]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        first, *others = (folder / "events.jsonl").read_text().splitlines()
        (folder / "events.jsonl").write_text("\n".join([json.dumps(json.loads(first) | change), *others]))

    return damage


def a_file_outside_of_a_candidate(state: Any) -> None:
    files = state["candidates"][0]["files"]
    files["../../outside.py"] = files["model_new.py"]


def another_blob(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        place = folder / "blobs" / "00" / ("0" * 64)
        place.parent.mkdir(exist_ok=True)
        make(place)

    return damage


def be_a_pipe(folder: Path) -> None:
    (folder / "events.jsonl").unlink()
    os.mkfifo(folder / "events.jsonl")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (another_blob(os.mkfifo), "is no plain file"),
        (another_blob(lambda place: place.symlink_to("/dev/zero")), "cannot be read"),
        (another_blob(Path.mkdir), "cannot be read"),
        (be_a_pipe, "is no plain file"),
        (edit_state(lambda state: state["source"].update(sha256="../../../../etc/passwd")), "The program itself is missing"),
        (edit_state(a_file_outside_of_a_candidate), "cannot be a candidate"),
        (edit_state(lambda state: state.update(step=10**30)), "a step or a time that no run has"),
        (edit_state(lambda state: state.update(started_at=1e300)), "a step or a time that no run has"),
        (edit_event({"at": 1e300}), "at a time that no run has"),
        (edit_event({"at": float("nan")}), "at a time that no run has"),
        (edit_event({"payload": {"surprise": 1}}), "tells of no run that could be shown"),
        (damage_blob, "does not hold what its name says"),
        (lose_an_event, "has a gap"),
        (lose_the_state, "cannot be read"),
        (be_of_another_version, "not a state of this version"),
    ],
)
def test_a_damaged_folder_is_refused_and_leaves_nothing(world: World, folder: Path, damage: Any, said: str) -> None:
    damage(folder)
    before = Program.objects.count()
    with pytest.raises(CannotImport, match=said):
        import_folder(folder, world.team, world.owner)
    assert not Run.objects.exists()
    assert Program.objects.count() == before


def test_numbers_that_are_not_finite_are_taken_in(world: World, folder: Path) -> None:
    edit_state(lambda state: state["usage"].update(wall_s=float("inf")))(folder)
    assert import_folder(folder, world.team, world.owner).load().usage.wall_s == float("inf")


def test_an_unknown_team_is_said(world: World, folder: Path) -> None:
    with pytest.raises(CommandError, match="no team with the slug 'nowhere'"):
        call_command("import_run", str(folder), team="nowhere")


def test_synthetic_content_is_complete_and_marked(db: None) -> None:
    said: list[str] = []
    seed(Size(programs=4, runs=14, events=0), said.append)
    assert Run.objects.count() == Run.objects.filter(synthetic=True).count() == 14
    assert Team.objects.filter(synthetic=True).count() == 3
    assert not Program.objects.filter(synthetic=False).exists()
    assert {"verified", "no-gain", "refused", "cancelled", "failed", ""} <= set(Run.objects.values_list("verdict", flat=True))
    names = list(Program.objects.values_list("name", flat=True))
    assert len(set(names)) == len(names)
    for run in Run.objects.all():
        told = told_by(run)
        assert [event.seq for event in told] == list(range(1, run.last_seq + 1))
        view, fold = history.view_of(run.pk), fold_all(View(), told)
        for moment in ("started_at", "changed_at", "status_since"):  # moved in time, by a number that floats round
            assert getattr(view, moment) == pytest.approx(getattr(fold, moment), abs=1e-3)
            fold = fold.model_copy(update={moment: getattr(view, moment)})
        assert view == fold
        assert view.header is not None
        assert view.header.synthetic
        assert view.header.run == str(run.pk)
        assert len(view.candidates) == run.candidates


def test_synthetic_runs_are_never_worked_on(db: None, conveyor: Any) -> None:
    seed(Size(programs=4, runs=12, events=0), lambda line: None)
    conveyor.messages.clear()
    Run.objects.update(poked_at=None)
    sweep()
    assert not conveyor.messages


def test_as_many_events_are_made_as_were_asked_for(db: None) -> None:
    seed(Size(programs=4, runs=40, events=7000), lambda line: None)
    assert Event.objects.count() >= 7000 * 0.9
