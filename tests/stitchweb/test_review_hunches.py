"""A hunch goes through the hands as any check does; its readings stand beside the scores, its verdict comes after them."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runner.broker import TASK
from gpu_runner.contracts import CheckRow, Verdict
from stitchweb.programs.models import Revision
from stitchweb.review.models import Hunch, Item
from stitchweb.runs.models import Event, Job, JobState, Run
from tests.agents.loop_world import FakeHands, check
from tests.stitchweb.conveyor import Conveyor, Runner
from tests.stitchweb.markup import well_formed
from tests.stitchweb.test_review_pages import FORM, PageDesk, text_of
from tests.stitchweb.world_for_tests import make_world

pytestmark = pytest.mark.django_db(transaction=True)

ROW = CheckRow(group="declared", name="draw 1", value="3.4e-3", limit="1e-4", passed=False)
REPORT = check().model_copy(update={"verdict": Verdict.INCORRECT, "rows": (ROW,), "sentence": "It is incorrect in draw 1."})


@pytest.fixture
def desk() -> PageDesk:
    return PageDesk(make_world())


def texts(client: Any, place: str) -> dict[str, str]:
    """The texts of the page's form, as it would send them."""
    context = client.get(f"{place}hunch/").context
    return {f"text-{path}": text for path, text in [*context["files"], context["reference"]]}


def work(conveyor: Conveyor, **answers: Any) -> FakeHands:
    hands = FakeHands(**({"check": REPORT} | answers))
    Runner(conveyor.sent(TASK)[-1]["job"]).work(hands)
    return hands


def test_a_changed_candidate_is_checked_and_its_readings_come_without_a_verdict(desk: PageDesk, conveyor: Conveyor) -> None:
    client, place = desk.take(desk.rita)
    run = Item.objects.get(assignments=int(place.split("/")[3])).run
    events = Event.objects.filter(run=run).count()
    sent = texts(client, place)
    kernel = next(key for key in sent if key.endswith(".cpp"))
    changed = sent | {kernel: sent[kernel].replace("1e-5f", "1e-2f"), "note": "The epsilon does not matter here"}
    assert client.post(f"{place}hunch/", changed).status_code == 302
    page = client.get(f"{place}hunch/")
    well_formed(page.content.decode())
    assert "Being checked" in text_of(page)
    assert "every 2s" in text_of(page)
    hands = work(conveyor)
    [task] = hands.tasks
    assert "1e-2f" in task.candidate.files[kernel[5:]]  # type: ignore[union-attr]
    assert task.source.text == run.revision.text  # type: ignore[union-attr]
    told = text_of(client.get(f"{place}hunch/list"))
    assert "draw 1" in told
    assert "3.4e-3" in told.replace("×10", "e") or "limit" in told
    assert "incorrect" not in told
    assert "every 2s" not in told
    assert (Run.objects.get(pk=run.pk).verdict, Event.objects.filter(run=run).count()) == (run.verdict, events)
    assert Revision.objects.get(pk=run.revision_id).analysis == run.revision.analysis


def test_an_attached_finding_is_shown_with_the_label_and_its_verdict_when_the_program_opens(
    desk: PageDesk, conveyor: Conveyor
) -> None:
    client, place = desk.take(desk.rita)
    sent = texts(client, place)
    inputs = sent | {"text-reference.py": sent["text-reference.py"].replace("1024)]", "512)]"), "note": "Half as wide"}
    client.post(f"{place}hunch/", inputs)
    hands = work(conveyor)
    assert "512)]" in hands.tasks[0].source.text  # type: ignore[union-attr]
    assert client.post(f"{place}hunch/1/attach", {"dimension": "anti_hacking"}).status_code == 302
    client.post(place, {**FORM, "act": "submit"})
    page = client.get(place)
    well_formed(page.content.decode())
    shown = text_of(page).partition("Hunches tested")[2]
    assert "Half as wide" in shown
    # The hunch may have held the text of a candidate that is still to be scored.
    assert "incorrect" not in shown
    assert "incorrect" not in text_of(client.get(f"{place}hunch/list"))
    assert "other candidates" in text_of(client.get(f"{place}hunch/list"))
    score_the_rest(desk)
    assert "incorrect" in text_of(client.get(place)).partition("Hunches tested")[2]
    assert "incorrect" in text_of(client.get(f"{place}hunch/list"))
    client.post(f"{place}hunch/1/attach", {"dimension": ""})
    assert Hunch.objects.get().attached == "anti_hacking"
    labels = desk.client(desk.world.owner).get(f"/review/projects/{desk.project.pk}/labels.jsonl").content.decode()
    assert '"verdict": "incorrect"' in labels
    other, elsewhere = desk.take(desk.raj)
    assert "Half as wide" not in text_of(other.get(elsewhere))


def score_the_rest(desk: PageDesk) -> None:
    """Rita scores all that comes to her."""
    client = desk.client(desk.rita)
    while "/review/items/" in (to := client.post(f"/review/projects/{desk.project.pk}/next").url):
        assert client.post(to, {**FORM, "act": "submit"}).status_code == 302


def test_nothing_is_tried_on_what_is_submitted(desk: PageDesk, conveyor: Conveyor) -> None:
    client, place = desk.take(desk.rita)
    sent = texts(client, place)
    client.post(place, {**FORM, "act": "submit"})
    answer = client.post(f"{place}hunch/", sent | {"note": "too late"})
    assert answer.status_code == 409
    assert "could be attached" in text_of(answer)
    assert "too late" in text_of(answer)
    page = text_of(client.get(f"{place}hunch/"))
    assert "You have scored this item" in page
    assert "Have it checked" not in page
    assert not Hunch.objects.exists()


def test_what_cannot_be_checked_is_refused_with_the_text_kept(desk: PageDesk, conveyor: Conveyor) -> None:
    client, place = desk.take(desk.rita)
    sent = texts(client, place)
    answer = client.post(f"{place}hunch/", sent | {"text-reference.py": "print(1)  # mine"})
    assert answer.status_code == 409
    assert "cannot be a program" in text_of(answer)
    assert "print(1)  # mine" in text_of(answer)
    assert client.post(f"{place}hunch/", sent).status_code == 302  # as it is: a fair thing to ask
    again = client.post(f"{place}hunch/", sent)
    assert again.status_code == 409
    assert "one thing at a time" in text_of(again)
    assert desk.client(desk.raj).get(f"{place}hunch/").status_code == 404
    assert Hunch.objects.count() == 1


def test_a_runner_that_cannot_is_told_and_the_next_hunch_may_come(desk: PageDesk, conveyor: Conveyor) -> None:
    client, place = desk.take(desk.rita)
    sent = texts(client, place)
    client.post(f"{place}hunch/", sent)
    Job.objects.filter(kind="check").update(state=JobState.FAILED, error="The sandbox could not be made.")
    assert "The sandbox could not be made." in text_of(client.get(f"{place}hunch/"))
    assert client.post(f"{place}hunch/", sent).status_code == 302
    assert list(Hunch.objects.order_by("number").values_list("number", flat=True)) == [1, 2]
