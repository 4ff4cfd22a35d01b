"""One draw of a check made again from the run page: a job beside the run, told as events, compared with what is recorded."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents.engineers.scripted import Scripted
from agents.events import ReplayView, replay_key
from gpu_runner.broker import TASK
from gpu_runner.contracts import CheckReport, CheckRow, Progress, Verdict
from gpu_runner.hands import HandsError
from stitchweb.runs import hosts, jobbook, replays, services
from stitchweb.runs.history import view_of
from stitchweb.runs.models import Blob, Event, Job, JobState, Run
from stitchweb.runs.models import Runner as Fleet
from stitchweb.runs.render import RunRenderer
from stitchweb.runs.sweeper import sweep
from tests.agents.loop_world import FakeHands, check, options, program, scripted_name, todo
from tests.conftest import World, build_world
from tests.stitchweb.conveyor import Conveyor, Runner

pytestmark = pytest.mark.django_db(transaction=True)
HTMX = {"HX-Request": "true"}
ROW = check().rows[0].model_copy(update={"numbers": "abc"})
SEEN = CheckReport(verdict=Verdict.VERIFIED, rows=(ROW,), sentence="Only draw 1 was replayed.", device=check().device)


@pytest.fixture
def world() -> World:
    return build_world()


@pytest.fixture
def run(world: World, conveyor: Conveyor) -> Run:
    """A finished run whose c1 has one draw."""
    hands = FakeHands(check=check().model_copy(update={"rows": (ROW,)}))
    name = scripted_name(Scripted(plans=[(todo(),)], codes=[program("one")]))
    run = services.start_run(world.owner, world.revision, options(name))
    conveyor.run(hands)
    return Run.objects.get(pk=run.pk)


@pytest.fixture
def client(world: World) -> Client:
    client = Client()
    client.force_login(world.teammate)
    return client


KEY = replay_key(ROW.replay)  # type: ignore[arg-type]


def ask(client: Client, run: Run, **more: Any) -> Any:
    return client.post(f"/runs/{run.pk}/replay", {"row": f"c1/{KEY}"} | more, headers=HTMX)


def newest(run: Run) -> ReplayView:
    return view_of(run.pk).replays[KEY]


def panel(run: Run) -> str:
    return str(RunRenderer(run.pk, {}).candidate_panel("checks", view_of(run.pk), "c1"))  # type: ignore[arg-type]


def runner_of(conveyor: Conveyor) -> Runner:
    return Runner(conveyor.sent(TASK)[-1]["job"])


def test_a_replay_is_a_job_with_the_recorded_draw_under_the_protocol_of_the_record(
    client: Client, run: Run, conveyor: Conveyor
) -> None:
    assert "Replay" in panel(run)
    assert ask(client, run).status_code == 204
    job = Job.objects.get(run=run, step=None)
    recorded = run.load().candidate("c1").check
    assert recorded is not None
    assert job.task["replay"] == ROW.replay.model_dump(mode="json")  # type: ignore[union-attr]
    assert job.queue == "run.cpu"
    assert f"{job.task['protocol']['name']}/{job.task['protocol']['version']}" == recorded.protocol == "strict/4"
    assert newest(run).state == "asked"
    assert newest(run).by == "Teammate"
    assert "replay asked by Teammate" in panel(run)
    assert conveyor.sent(TASK)[-1]["job"]["id"] == job.pk


def test_it_is_told_from_waiting_to_its_result_and_changes_nothing_of_the_run(
    client: Client, run: Run, conveyor: Conveyor
) -> None:
    before = run.load()
    Fleet.objects.all().delete()
    ask(client, run)
    assert "No runner for cpu is there. It is done as soon as one is started." in panel(run)
    runner = runner_of(conveyor)
    assert runner.claim()
    assert "replaying" in panel(run)
    assert runner.progress(Progress(kind="stage", payload={"text": "comparing"})) == (200, {"cancel": False})
    assert newest(run).doing == "comparing"
    assert "comparing" in panel(run)
    assert runner.progress() == (200, {"cancel": False})
    assert runner.report(SEEN.model_dump(mode="json"))[0] == 200
    assert (newest(run).state, newest(run).seen) == ("done", ROW)
    assert "replayed: the same to the bit" in panel(run)
    again = Run.objects.get(pk=run.pk)
    assert again.load() == before
    assert (again.status, again.verdict) == (run.status, run.verdict)
    conveyor.run()
    assert Run.objects.get(pk=run.pk).load() == before
    seqs = list(Event.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, Run.objects.get(pk=run.pk).last_seq + 1))


@pytest.mark.parametrize(
    ("update", "said"),
    [
        ({}, "replayed: the same to the bit"),
        ({"numbers": "abd"}, "differ in their last digits"),
        ({"numbers": ""}, "replayed: the same reading"),
        ({"value": "2e-6"}, "<b>2e-6</b>"),
        ({"passed": False, "note": "it is <wrong>"}, "<b>it is &lt;wrong&gt;</b>"),
    ],
)
def test_the_result_stands_beside_what_is_recorded(
    client: Client, run: Run, conveyor: Conveyor, update: dict[str, Any], said: str
) -> None:
    ask(client, run)
    report = SEEN.model_copy(update={"rows": (ROW.model_copy(update=update),)})
    conveyor.run(FakeHands(check=report))
    assert said in panel(run)


def test_a_row_without_a_digest_is_never_called_the_same_to_the_bit() -> None:
    old = ROW.model_copy(update={"numbers": ""})
    assert replays.compare(old, old).same == "reading"
    assert replays.compare(ROW, ROW).same == "bits"


@pytest.mark.parametrize(
    ("report", "state", "said"),
    [
        (HandsError("The sandbox cannot be started."), "failed", "The sandbox cannot be started."),
        (CheckReport(verdict=Verdict.CRASHED, sentence="The candidate crashed."), "done", "The candidate crashed."),
        (FakeHands().perform, "failed", "another report"),
    ],
)
def test_what_could_not_be_replayed_says_why(
    client: Client, run: Run, conveyor: Conveyor, report: Any, state: str, said: str
) -> None:
    ask(client, run)
    if callable(report):
        runner = runner_of(conveyor)
        runner.claim()
        runner.report({"kind": "build", "ok": True})
    else:
        conveyor.run(FakeHands(check=report))
    assert newest(run).state == state
    assert said in panel(run)


def test_it_can_be_cancelled_and_its_runner_learns_it(client: Client, run: Run, conveyor: Conveyor) -> None:
    ask(client, run)
    runner = runner_of(conveyor)
    runner.claim()
    job = Job.objects.get(run=run, step=None)
    assert f'value="c1/{job.pk}"' in panel(run)
    assert ask(client, run, row="", cancel=f"c1/{job.pk}").status_code == 204
    assert newest(run).state == "cancelled"
    assert runner.progress()[0] == 410
    assert runner.report(SEEN.model_dump(mode="json"))[0] == 410
    assert "replay cancelled" in panel(run)
    assert ask(client, run, row="", cancel=f"c1/{job.pk}").status_code == 204
    assert newest(run).state == "cancelled"
    assert ask(client, run).status_code == 204
    assert newest(run).state == "asked"


def test_a_replay_under_way_is_not_asked_for_twice_and_few_run_at_once(
    client: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(client, run)
    answer = ask(client, run)
    assert "is being replayed already" in answer.content.decode()
    assert answer["HX-Retarget"] == "#steer-answer"
    monkeypatch.setattr(services, "MOST_REPLAYS", 1)
    job = Job.objects.get(run=run, step=None)
    ask(client, run, row="", cancel=f"c1/{job.pk}")
    other = ReplayView(id="1", candidate="c1", row="another", name="draw 2", state="working")
    with services.transaction.atomic():
        replays.tell(services.events.lock(run.pk), other)
    assert "Wait for one to end" in ask(client, run).content.decode()


@pytest.mark.parametrize("row", ["c1/000000000000", "c9/x", "", "/", "c1", "c1/\x00"])
def test_what_is_no_recorded_draw_is_refused_with_a_sentence(client: Client, run: Run, row: str) -> None:
    assert "no draw that could be replayed" in ask(client, run, row=row).content.decode()
    assert not Job.objects.filter(step=None).exists()


@pytest.mark.parametrize("cancel", ["c1/1", "c1/x", "c1/99999999999999999999999", "\r\nX: y/1", ""])
def test_what_is_no_replay_cannot_be_cancelled(client: Client, run: Run, cancel: str) -> None:
    assert "no such replay" in ask(client, run, row="", cancel=cancel).content.decode()


def test_who_may_not_steer_may_not_replay(world: World, run: Run) -> None:
    for person, status in ((world.viewer, 403), (world.expert, 403), (world.outsider, 404)):
        client = Client()
        client.force_login(person)
        assert ask(client, run).status_code == status
    assert not Job.objects.filter(run=run, step=None).exists()


def test_without_javascript_the_answer_leads_back_to_the_checks(client: Client, run: Run) -> None:
    answer = client.post(f"/runs/{run.pk}/replay", {"row": f"c1/{KEY}"})
    assert answer["Location"] == f"/runs/{run.pk}/?candidate=c1#checks-c1"
    page = client.get(answer["Location"]).content.decode()
    assert 'id="checks-c1"' in page
    assert "replay asked by Teammate" in page
    answer = client.post(f"/runs/{run.pk}/replay", {"row": "c1/nothing"}, follow=True)
    assert "no draw that could be replayed" in answer.content.decode()


def test_a_replay_outlives_the_end_of_its_run_and_a_cancelled_run_does_not_stop_it(
    world: World, client: Client, run: Run, conveyor: Conveyor
) -> None:
    ask(client, run)
    runner = runner_of(conveyor)
    runner.claim()
    Run.objects.filter(pk=run.pk).update(cancel_requested_at=timezone.now())
    assert runner.progress() == (200, {"cancel": False})
    assert runner.progress(Progress(kind="stage", payload={"text": "comparing"})) == (200, {"cancel": False})
    jobbook.cancel_open(run)
    assert runner.report(SEEN.model_dump(mode="json"))[0] == 200
    assert newest(run).state == "done"


def test_a_runner_that_falls_silent_gives_the_replay_to_another_and_at_last_to_nobody(
    client: Client, run: Run, conveyor: Conveyor
) -> None:
    ask(client, run)
    for attempt in range(jobbook.MAX_CLAIMS):
        runner = runner_of(conveyor)
        assert runner.claim(f"runner {attempt}")
        Job.objects.filter(step=None, run=run).update(lease_expires=timezone.now() - timedelta(seconds=1))
        sweep()
        if attempt + 1 < jobbook.MAX_CLAIMS:
            assert newest(run).state == "asked"
            assert f"runner {attempt} fell silent" in panel(run)
    assert newest(run).state == "failed"
    assert "fell silent during this step" in panel(run)
    assert Job.objects.get(step=None, run=run).state == JobState.FAILED


def test_a_program_that_is_gone_cannot_be_replayed(client: Client, run: Run) -> None:
    Blob.objects.all().delete()
    assert "not stored here any more" in ask(client, run).content.decode()


def test_a_runner_that_is_starting_is_told_as_such(client: Client, run: Run) -> None:
    Fleet.objects.all().delete()
    hosts.admit("cpu@here", ["run.cpu"])
    ask(client, run)
    assert "The runner for cpu is starting. It is done as soon as it is there." in panel(run)


def test_only_draws_of_a_settled_check_can_be_replayed(run: Run) -> None:
    view = view_of(run.pk)
    told = CheckRow(group="state", name="inputs", value="untouched", passed=True)
    known = view.candidates["c1"].model_copy(update={"rows": (told,)})
    view = view.model_copy(update={"candidates": {"c1": known}})
    assert "Replay" not in str(RunRenderer(run.pk, {}).candidate_panel("checks", view, "c1"))  # type: ignore[arg-type]
    live = known.model_copy(update={"rows": (), "verdict": None, "status": "checking", "check": None})
    view = view.model_copy(update={"candidates": {"c1": live}, "live_rows": {"c1": (ROW,)}})
    html = str(RunRenderer(run.pk, {}).candidate_panel("checks", view, "c1"))  # type: ignore[arg-type]
    assert "draw 1" in html
    assert "Replay" not in html
