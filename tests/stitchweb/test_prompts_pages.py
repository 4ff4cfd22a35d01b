"""A team's prompts: edited within bounds, compared with ours, reset, previewed on the data of a run without asking anybody."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client

from agents.engineers.llm.prompts import ours
from agents.engineers.scripted import Scripted
from stitchweb.llm.access import prompts_of
from stitchweb.llm.services import MOST_PROMPT
from stitchweb.runs import services
from stitchweb.runs.models import Blob, Run
from tests.agents.loop_world import options, program, scripted_name, todo
from tests.conftest import World, build_world
from tests.stitchweb import model_story
from tests.stitchweb.conveyor import Conveyor
from tests.stitchweb.test_models_pages import client_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world() -> World:
    return build_world()


@pytest.fixture
def run(world: World, conveyor: Conveyor) -> Run:
    engineer = Scripted(plans=[(todo(),)], codes=[program("one"), program("two")])
    run = services.start_run(world.owner, world.revision, options(scripted_name(engineer)))
    conveyor.run(model_story.hands())
    return run


def post(client: Client, world: World, name: str, action: str, text: str, **more: Any) -> Any:
    return client.post(f"/models/{world.team.slug}/prompts/{name}/", {"action": action, "text": text} | more)


def regions(answer: Any) -> str:
    """What the preview shows, as a reader sees it."""
    found = re.findall(r'<pre class="out wraps">(.*?)</pre>', answer.content.decode(), re.DOTALL)
    return html.unescape("\n".join(found))


def test_a_text_is_saved_shown_as_a_diff_and_reset(world: World) -> None:
    client, place = client_of(world.owner), f"/models/{world.team.slug}/prompts/"
    assert post(client, world, "verifier", "save", ours()["verifier"].replace("Verifier", "Judge")).status_code == 302
    assert list(prompts_of(world.team.pk)) == ["verifier"]
    assert prompts_of(world.others.pk) == {}
    page = client.get(f"{place}verifier/").content.decode()
    assert "Against the shipped text" in page
    assert '<b class="w">Judge</b>' in page
    assert "by Owner" in client.get(place).content.decode()
    assert post(client, world, "verifier", "save", ours()["verifier"].replace("\n", "\r\n")).status_code == 302
    assert prompts_of(world.team.pk) == {}, "our own text again is no text of the team"
    post(client, world, "coder_feedback", "save", "Repair it.")
    assert post(client, world, "coder_feedback", "reset", "whatever").status_code == 302
    assert prompts_of(world.team.pk) == {}


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("planner", "   \n ", "An empty prompt tells a model nothing."),
        ("planner", "Plan.", "The text lacks {{target}}"),
        ("planner", "Plan {{target}} with {{secret}}.", "Nothing fills {{secret}}. What is filled in this prompt: {{target}}."),
        ("coder_feedback", "Mend {{it}}.", "Nothing is filled in this prompt."),
        ("planner", "{{target}}" + "x" * MOST_PROMPT, f"{MOST_PROMPT} is the most"),
    ],
)
def test_a_text_that_cannot_be_used_is_refused_and_stays_in_the_form(world: World, name: str, text: str, why: str) -> None:
    answer = post(client_of(world.owner), world, name, "save", text)
    page = html.unescape(answer.content.decode())
    assert answer.status_code == 422
    assert why in page
    assert text.strip() in page
    assert prompts_of(world.team.pk) == {}


def test_there_are_no_prompts_but_ours(world: World) -> None:
    assert client_of(world.owner).get(f"/models/{world.team.slug}/prompts/nothing/").status_code == 404


@pytest.mark.parametrize("name", sorted(ours()))
def test_a_preview_is_what_a_model_would_be_told_and_stores_nothing(world: World, run: Run, name: str) -> None:
    blobs, text = Blob.objects.count(), f"BEGIN OF MINE\n{ours()[name]}"
    answer = post(client_of(world.teammate), world, name, "preview", text, run=run.pk)
    assert answer.status_code == 200
    if name == "target_cuda":
        assert "This run is for cpu. Choose one for a GPU." in answer.content.decode()
        return
    told = regions(answer)
    assert "BEGIN OF MINE" in told
    assert "{{" not in told
    if name != "repair":
        assert "Row-wise layer normalisation" in told, "the run's program"
    if name in ("verifier", "coder_feedback"):
        assert "model_new.py" in told
    assert Blob.objects.count() == blobs
    assert prompts_of(world.team.pk) == {}


def test_a_preview_needs_a_run_of_the_team_that_was_analysed(world: World, run: Run, conveyor: Conveyor) -> None:
    fresh = services.start_run(world.owner, world.revision, options("offline"))
    client = client_of(world.owner)
    for chosen, why in [("", "Choose a run"), ("x", "Choose a run"), (fresh.pk, "was not analysed")]:
        assert why in post(client, world, "planner", "preview", "{{target}}", run=chosen).content.decode()
    assert "Nothing fills other" in post(client, world, "planner", "preview", "{{other}}", run=run.pk).content.decode()
    stranger = client_of(world.outsider)
    answer = stranger.post(f"/models/{world.others.slug}/prompts/planner/", {"action": "preview", "text": "x", "run": run.pk})
    assert answer.status_code == 404
