"""What runners may say over HTTP, and what they are told."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents.engineers.scripted import Scripted
from gpu_runner.broker import HARD_LIMIT_S, TASK
from gpu_runner.contracts import CheckReport, Progress, Verdict
from stitchweb.runs import jobbook, jobs, runners, services
from stitchweb.runs.history import view_of
from stitchweb.runs.models import Artifact, Event, Job, JobState, Run
from stitchweb.runs.models import Runner as Fleet
from stitchweb.runs.sweeper import sweep
from tests.agents.loop_world import analysis, options, scripted_name, timing, todo
from tests.conftest import World, build_world
from tests.stitchweb.conveyor import Conveyor, Runner, heard

pytestmark = pytest.mark.django_db(transaction=True)

LINE = Progress(kind="log", payload={"stream": "reference", "text": "a line\n"})


@pytest.fixture
def world() -> World:
    return build_world()


@pytest.fixture
def run(world: World, conveyor: Conveyor) -> Run:
    """A run whose first job waits for a runner."""
    name = scripted_name(Scripted(plans=[(todo(),)]))
    run = services.start_run(world.owner, world.revision, options(name))
    conveyor.run()
    return run


@pytest.fixture
def runner(run: Run, conveyor: Conveyor) -> Runner:
    [message] = conveyor.sent(TASK)
    return Runner(message["job"])


def lines(run: Run) -> int:
    return Event.objects.filter(run=run, kind="log.lines").count()


def report() -> dict[str, Any]:
    return analysis().model_dump(mode="json")


def test_a_message_says_which_job_and_the_claim_says_what_to_do(runner: Runner, settings: Any) -> None:
    assert set(runner.job) == {"id", "token"}
    assert settings.SECRET_KEY not in str(runner.job)
    assert runner.claim()
    assert runner.told["task"] == Job.objects.get().task
    assert runner.told["task"]["kind"] == "analyse"


def test_a_job_is_claimed_once(runner: Runner) -> None:
    second = Runner(runner.job)
    assert runner.claim()
    assert not second.claim()


@pytest.mark.parametrize("token", ["", "nonsense", "MTc:forged:token"])
def test_a_bad_token_is_refused(runner: Runner, token: str) -> None:
    assert runner.post("claim", {"worker": "x"}, token=token or "-")[0] == 401


def test_a_token_speaks_for_its_own_job_alone(runner: Runner) -> None:
    assert runner.post("claim", {"worker": "x"}, token=jobbook.token_of(runner.job["id"] + 1))[0] == 401


def test_an_old_token_is_refused(runner: Runner, time_passes: Any) -> None:
    time_passes(3 * 24 * 3600)
    assert runner.post("claim", {"worker": "x"})[0] == 401


@pytest.fixture
def time_passes(monkeypatch: pytest.MonkeyPatch) -> Any:
    import time

    def passes(seconds: float) -> None:
        now = time.time() + seconds
        monkeypatch.setattr("django.core.signing.time.time", lambda: now)

    return passes


def test_progress_becomes_events_and_renews_the_lease(run: Run, runner: Runner) -> None:
    runner.claim()
    Job.objects.update(lease_expires=timezone.now() + timedelta(seconds=1))
    assert runner.progress(LINE) == (200, {"cancel": False})
    assert lines(run) == 1
    job = Job.objects.get()
    assert job.lease_expires is not None
    assert job.lease_expires > timezone.now() + timedelta(seconds=30)


def test_a_batch_that_comes_twice_is_told_once(run: Run, runner: Runner) -> None:
    runner.claim()
    runner.progress(LINE, batch=1)
    assert runner.progress(LINE, batch=1) == (200, {"cancel": False})
    assert lines(run) == 1
    runner.progress(LINE, batch=2)
    assert lines(run) == 2


def test_a_heartbeat_tells_nothing_and_keeps_the_lease(run: Run, runner: Runner) -> None:
    runner.claim()
    before = Event.objects.filter(run=run).count()
    Job.objects.update(lease_expires=timezone.now() + timedelta(seconds=1))
    assert runner.progress() == (200, {"cancel": False})
    assert Event.objects.filter(run=run).count() == before
    assert Job.objects.filter(lease_expires__gt=timezone.now() + timedelta(seconds=30)).exists()


def test_progress_that_cannot_be_read_does_not_end_the_job(run: Run, runner: Runner) -> None:
    runner.claim()
    body = {"claim": runner.claim_token, "batch": 1, "messages": [{"kind": "gossip", "payload": {}}]}
    assert runner.post("progress", body) == (200, {"cancel": False})


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("check", {"what": "a row of another version"}),
        ("check", {"group": "declared", "name": ["no text"]}),
        ("timing", {"arm": "eager", "round": "first", "rounds": 2, "median_ms": 1.0}),
        ("timing", {"arm": "eager", "round": 1, "rounds": 2, "median_ms": 1.0, "candidate": "another's"}),
    ],
)
def test_a_word_that_no_page_could_read_is_not_kept(run: Run, runner: Runner, kind: str, payload: dict[str, Any]) -> None:
    runner.claim()
    before = Event.objects.filter(run=run).count()
    body = {"claim": runner.claim_token, "batch": 1, "messages": [{"kind": kind, "payload": payload}]}
    assert runner.post("progress", body) == (200, {"cancel": False})
    assert Event.objects.filter(run=run).count() == before
    assert view_of(run.pk).seq == before


def test_a_runner_learns_that_its_run_is_cancelled(world: World, run: Run, runner: Runner) -> None:
    runner.claim()
    services.control(world.owner, run, "cancel")
    assert runner.progress() == (200, {"cancel": True})
    assert runner.progress(LINE) == (200, {"cancel": True})


def test_a_report_is_kept_once_and_its_repetition_answered_alike(run: Run, runner: Runner, conveyor: Conveyor) -> None:
    runner.claim()
    assert runner.report(report()) == (200, {})
    other = report() | {"entry": "Another"}
    assert runner.report(other) == (200, {})
    job = Job.objects.get()
    assert job.state == JobState.DONE
    assert job.report["entry"] == "Model"


def test_a_report_of_a_superseded_delivery_is_refused(run: Run, runner: Runner) -> None:
    runner.claim()
    Job.objects.update(lease_expires=timezone.now() - timedelta(seconds=1))
    second = Runner(runner.job)
    assert second.claim()
    assert runner.report(report())[0] == 410
    assert runner.progress(LINE)[0] == 410
    assert second.report(report())[0] == 200


def test_a_report_that_cannot_be_read_ends_the_step_with_the_cause(run: Run, runner: Runner) -> None:
    runner.claim()
    assert runner.report({"kind": "analysis", "surprise": 1})[0] == 200
    job = Job.objects.get()
    assert job.state == JobState.FAILED
    assert "cannot be read" in job.error


def test_a_report_is_stored_whatever_a_program_put_into_it(run: Run, runner: Runner) -> None:
    runner.claim()
    uttered = {"eager_ms": float("inf"), "init_inputs": [float("nan"), float("-inf"), "half \ud800", "null \0"]}
    assert runner.report(report() | uttered) == (200, {})
    job = Job.objects.get()
    assert job.state == JobState.DONE
    assert job.report["init_inputs"] == ["NaN", "-Infinity", "half ?", "null \ufffd"]


def test_a_run_goes_on_whatever_numbers_are_in_a_report(run: Run, runner: Runner, conveyor: Conveyor) -> None:
    runner.claim()
    runner.report(report() | {"eager_ms": float("inf")})
    conveyor.run()
    run.refresh_from_db()
    assert run.load().analysis.eager_ms == float("inf")


def test_an_error_is_stored_whatever_a_program_put_into_it(run: Run, runner: Runner) -> None:
    runner.claim()
    assert runner.report(None, error="half \ud800, null \0") == (200, {})
    assert Job.objects.get().error == "half ?, null \ufffd"


@pytest.mark.parametrize("body", [{}, {"claim": 5}, {"claim": "x", "report": "text"}, {"claim": "x", "seconds": "long"}])
def test_a_malformed_report_is_refused_with_a_sentence(runner: Runner, body: dict[str, Any]) -> None:
    runner.claim()
    status, answer = runner.post("report", body)
    assert status == 400
    assert answer["error"].endswith(".")


@pytest.mark.parametrize("data", [b"{", b"[" * 100_000])
def test_what_is_not_json_is_refused(runner: Runner, data: bytes) -> None:
    headers = {"Authorization": f"Bearer {runner.job['token']}"}
    answer = Client().post(f"/jobs/{runner.job['id']}/claim", data, content_type="application/json", headers=headers)
    assert answer.status_code == 400


def put(runner: Runner, name: str, data: bytes, claim: str | None = None) -> int:
    headers = {
        "Authorization": f"Bearer {runner.job['token']}", "X-Claim": claim or runner.claim_token,
        "X-Sha256": hashlib.sha256(data).hexdigest(),
    }  # fmt: skip
    url = f"/jobs/{runner.job['id']}/artifacts/{name}"
    return Client().post(url, data, content_type="application/octet-stream", headers=headers).status_code


def test_an_artifact_is_stored_once_with_its_digest(runner: Runner) -> None:
    runner.claim()
    assert put(runner, "trace.json.gz", b"abc") == 200
    assert put(runner, "trace.json.gz", b"abcdef") == 200
    artifact = Artifact.objects.get()
    assert (artifact.size, artifact.sha256[:8]) == (3, "ba7816bf")
    assert artifact.file.read() == b"abc"


def test_an_artifact_of_a_stranger_or_too_large_or_with_a_path_is_refused(runner: Runner, settings: Any) -> None:
    runner.claim()
    settings.MAX_ARTIFACT_MB = 0
    assert put(runner, "a.bin", b"abc") == 413
    assert put(runner, "a.bin", b"abc", claim="somebody") == 410
    assert put(runner, "..%2Fa.bin", b"abc") in (400, 404)
    assert not Artifact.objects.exists()


def test_a_delivery_begins_without_the_files_of_the_one_before(runner: Runner) -> None:
    runner.claim()
    assert put(runner, "a.bin", b"of the first") == 200
    stored = Artifact.objects.get().file
    Job.objects.update(lease_expires=timezone.now() - timedelta(seconds=1))
    second = Runner(runner.job)
    assert second.claim()
    assert not Artifact.objects.exists()
    assert not stored.storage.exists(stored.name)
    assert put(second, "a.bin", b"of the second") == 200
    assert Artifact.objects.get().file.read() == b"of the second"


def test_a_file_whose_job_became_anothers_while_it_was_sent_is_not_kept(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.claim()
    real = jobs._read

    def slowly(*given: Any) -> bytes:
        Job.objects.update(claim="another's")
        return real(*given)

    monkeypatch.setattr(jobs, "_read", slowly)
    assert put(runner, "a.bin", b"late") == 410
    assert not Artifact.objects.exists()


def test_a_job_has_few_files(runner: Runner) -> None:
    runner.claim()
    assert {put(runner, f"{number}.bin", b"x") for number in range(jobs.MOST_FILES)} == {200}
    assert put(runner, "one-more.bin", b"x") == 400
    assert put(runner, "0.bin", b"x") == 200, "a repetition is answered alike"


@pytest.mark.parametrize(
    "said",
    [
        {"seconds": 10**400}, {"seconds": float("nan")}, {"seconds": float("inf")}, {"seconds": -1}, {"seconds": True},
        {"claim": "\ud800"}, {"claim": "a\0b"},
    ],
)  # fmt: skip
def test_what_no_database_takes_is_not_understood(runner: Runner, said: dict[str, Any]) -> None:
    runner.claim()
    body = {"claim": runner.claim_token, "report": report(), "seconds": 1.0}
    assert runner.post("report", body | said)[0] == 400
    assert Job.objects.get().state == JobState.CLAIMED


def test_no_team_pays_for_more_seconds_than_a_job_can_take(runner: Runner) -> None:
    runner.claim()
    assert runner.report(report(), seconds=1e9) == (200, {})
    assert Job.objects.get().seconds == HARD_LIMIT_S


@pytest.mark.parametrize("batch", [-1, 2**63, True, 1.5])
def test_a_batch_has_a_number(runner: Runner, batch: Any) -> None:
    runner.claim()
    assert runner.post("progress", {"claim": runner.claim_token, "batch": batch, "messages": []})[0] == 400


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("nan"), float("inf"), "Infinity"])
def test_a_ratio_that_cannot_be_is_not_believed(world: World, conveyor: Conveyor, ratio: Any) -> None:
    told = timing(1.5).model_dump(mode="json")
    told["over_eager"]["low"] = ratio
    job = Job.objects.create(run=services.start_run(world.owner, world.revision, options(scripted_name(Scripted()))), step=7,
                             kind="time", queue="run.cpu", task={"kind": "time"})  # fmt: skip
    runner = Runner({"id": job.pk, "token": jobbook.token_of(job.pk)})
    runner.claim()
    assert runner.report(told) == (200, {})
    job.refresh_from_db()
    assert (job.state, job.report) == (JobState.FAILED, None)
    assert job.error == "The runner's report cannot be read: 1 fields are wrong."


def test_a_report_of_another_kind_is_no_answer(run: Run, runner: Runner) -> None:
    runner.claim()
    assert runner.report(CheckReport(verdict=Verdict.VERIFIED).model_dump(mode="json")) == (200, {})
    job = Job.objects.get()
    assert (job.state, job.report) == (JobState.FAILED, None)
    assert job.error == "The runner answered a task of the kind 'analyse' with another report, of the kind 'check'."


def test_a_silent_runners_job_goes_to_another(run: Run, runner: Runner, conveyor: Conveyor) -> None:
    runner.claim()
    conveyor.messages.clear()
    Job.objects.update(lease_expires=timezone.now() - timedelta(seconds=1), created_at=timezone.now() - timedelta(seconds=9))
    assert sweep().jobs == 1
    [message] = conveyor.sent(TASK)
    second = Runner(message["job"])
    assert second.claim()
    assert second.report(report())[0] == 200


def test_a_job_that_ends_its_runner_three_times_is_given_up_with_the_cause(
    run: Run, runner: Runner, conveyor: Conveyor
) -> None:
    for _ in range(3):
        assert Runner(runner.job).claim("runner-7")
        Job.objects.update(lease_expires=timezone.now() - timedelta(seconds=1))
    assert sweep().given_up == 1
    job = Job.objects.get()
    assert job.state == JobState.FAILED
    assert "runner-7" in job.error


def test_a_job_whose_message_was_never_sent_is_sent_by_the_sweeper(world: World, conveyor: Conveyor) -> None:
    conveyor.away = True
    job = jobbook.create_analysis(world.revision)
    Job.objects.update(created_at=timezone.now() - timedelta(seconds=9))
    sweep()
    assert Job.objects.get(pk=job.pk).sent_at is None
    conveyor.away = False
    assert sweep().jobs == 1
    assert sweep().jobs == 0


def test_an_analysis_before_any_run_is_kept_at_the_revision(world: World, conveyor: Conveyor) -> None:
    jobbook.create_analysis(world.revision)
    runner = Runner(conveyor.sent(TASK)[0]["job"])
    runner.claim()
    assert runner.progress(LINE)[0] == 200
    world.revision.refresh_from_db()
    assert world.revision.analysis_state == "running"
    runner.report(report())
    world.revision.refresh_from_db()
    assert world.revision.analysis_state == "done"
    assert world.revision.report is not None
    assert world.revision.report.graph is None


def test_an_analysis_that_no_machine_could_do_says_why(world: World, conveyor: Conveyor) -> None:
    jobbook.create_analysis(world.revision)
    runner = Runner(conveyor.sent(TASK)[0]["job"])
    runner.claim()
    runner.report(None, "No sandbox here.")
    world.revision.refresh_from_db()
    assert (world.revision.analysis_state, world.revision.analysis_error) == ("failed", "No sandbox here.")


def test_a_run_that_waits_says_what_it_waits_for(world: World, run: Run, conveyor: Conveyor) -> None:
    second = services.start_run(world.owner, world.revision, options(scripted_name(Scripted())))
    conveyor.run()
    assert view_of(second.pk).status.waiting == "No runner for cpu is there. The run goes on as soon as one is started."
    heard("one@host", ["run.cpu"])
    Job.objects.update(created_at=timezone.now() - timedelta(minutes=1), sent_at=timezone.now())
    sweep()
    assert view_of(second.pk).status.waiting == "Waits for a free cpu runner: 1 step of other work before it."
    told = view_of(second.pk).seq
    sweep()
    assert view_of(second.pk).seq == told
    runner = Runner(conveyor.sent(TASK)[-1]["job"])
    runner.claim()
    assert view_of(second.pk).status.waiting == ""


def test_a_runner_that_is_busy_counts_as_there(world: World, run: Run, conveyor: Conveyor) -> None:
    assert runners.there() == {}
    runner = Runner(conveyor.sent(TASK)[0]["job"])
    runner.claim()
    assert runners.there() == {"run.cpu": True}
    Fleet.objects.update(heard_at=timezone.now() - timedelta(minutes=5))
    assert runners.there() == {}
    runner.progress(LINE)
    assert runners.there() == {"run.cpu": True}
