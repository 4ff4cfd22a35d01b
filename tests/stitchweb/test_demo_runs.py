"""A newcomer without a key watches a model's run: what was said is a recording, what is measured is measured now."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.llm import cassette
from agents.model_choice import ModelChoice
from agents.state import Options
from gpu_runner.contracts import PROTOCOLS, BuildReport
from stitchweb.programs.models import Revision
from stitchweb.runs.models import Event, Run
from stitchweb.runs.services import RunRefused, start_run
from tests.agents.loop_world import FakeHands, timing
from tests.conftest import World, build_world
from tests.stitchweb.conveyor import Conveyor
from tests.stitchweb.test_model_runs import FORM
from tests.stitchweb.test_models_pages import client_of
from tests.stitchweb.test_orchestrator import events_are_whole, fresh

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("litellm")]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "elementwise_chain.py"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(cassette, "SLOWEST_S", 0.0)
    built = build_world()
    text = EXAMPLE.read_text()
    Revision.objects.filter(pk=built.revision.pk).update(text=text)
    built.revision.refresh_from_db()
    return built


def test_a_recorded_model_goes_through_the_loop_and_is_labelled_as_what_it_is(world: World, conveyor: Conveyor) -> None:
    client, place = client_of(world.teammate), f"/programs/{world.revision.program_id}/"
    page = client.get(place).content.decode()
    assert "Watch a recorded model" in page
    assert "A demonstration without a key." in page
    assert client.post(place, FORM | {"target": "sm_90", "demo": "on"}).status_code == 302
    run = Run.objects.latest("pk")
    failed = BuildReport(ok=False, diagnostics=("chain.cpp:14: error: expected ';'",))
    conveyor.run(FakeHands(build=[failed, BuildReport(ok=True)], time=[timing(0.3), timing(5.0)]))
    run = fresh(run)
    assert (run.target, run.engineer) == ("cpu", "demo:cassette/auto")
    assert (run.status, run.verdict, run.best) == ("finished", "verified", "c3"), run.sentence
    view = events_are_whole(run)
    assert [c.verdict for c in view.candidates.values()] == ["build-failed", "verified", "verified"]
    assert "A recording is played, no model is asked" in view.log["engineer"]
    shown = client.get(f"/runs/{run.pk}/").content.decode()
    assert "demo: a recording answers, no model is asked" in shown
    assert Event.objects.filter(run=run, kind="model.asked").count() == sum(a.questions for a in view.asked.values()) > 0


def test_a_program_without_a_recording_is_offered_none(world: World, conveyor: Conveyor) -> None:
    Revision.objects.filter(pk=world.revision.pk).update(text=world.revision.text + "\n# another\n")
    client, place = client_of(world.teammate), f"/programs/{world.revision.program_id}/"
    assert "Watch a recorded model" not in client.get(place).content.decode()
    assert client.post(place, FORM | {"demo": "on"}).status_code == 302
    conveyor.run(FakeHands())
    assert "There is no recording about this program." in fresh(Run.objects.latest("pk")).sentence


def test_a_site_plays_nothing_but_what_is_shipped(world: World) -> None:
    for name in ("cassette//etc/passwd", "cassette/one-pass", "cassette/../../secret.json"):
        chosen = dict.fromkeys(("planner", "coder", "verifier"), ModelChoice(model=name))
        options = Options(planner="demo", coder="demo", verifier="demo", models=chosen, protocol=PROTOCOLS["strict"])
        with pytest.raises(RunRefused, match="none of this team's"):
            start_run(world.teammate, world.revision, options)
