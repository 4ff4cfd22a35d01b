"""What watches the site: measures, life, readiness, the log as JSON."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from stitchweb.core import logs, tracing
from stitchweb.runs import hosts, services
from stitchweb.runs.models import Job, JobState, Run
from tests.conftest import World
from tests.stitchweb.test_operate_pages import OPTIONS

ROOT = Path(__file__).resolve().parents[2]


def told(client: Client, **headers: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.content.decode())
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


@pytest.fixture(autouse=True)
def folder(settings: Any, tmp_path: Path) -> None:
    settings.METRICS_DIR = tmp_path / "metrics"


@pytest.mark.django_db
def test_the_measures_are_those_of_the_rows(world: World) -> None:
    now = timezone.now()
    for wait, took, state in ((0.3, 4.0, JobState.DONE), (20.0, 40.0, JobState.DONE), (3.0, 1.0, JobState.FAILED)):
        made = now - timedelta(hours=1)
        Job.objects.create(
            revision=world.revision, kind="analyse", queue="run.cpu", task={}, state=state, created_at=made, seconds=took,
            claimed_at=made + timedelta(seconds=wait), done_at=made + timedelta(seconds=wait + took),
        )  # fmt: skip
    Job.objects.create(revision=world.revision, kind="check", queue="run.cpu", task={}, created_at=now - timedelta(seconds=60))
    run = services.create_run(world.owner, world.revision, OPTIONS)
    Run.objects.filter(pk=run.pk).update(verdict="verified", status="finished", tokens=10, money=0.5)
    secret = hosts.admit("gpu0", ["run.sm_90"])
    hosts.present(hosts.known("gpu0", secret), {}, "", {"gpu": 0.75, "load": 1.25})
    said = told(Client())
    assert said[key("stitchweb_jobs_waiting", queue="run.cpu")] == 1
    assert said[key("stitchweb_queue_oldest_seconds", queue="run.cpu")] == pytest.approx(60, abs=5)
    assert said[key("stitchweb_queue_wait_seconds_bucket", queue="run.cpu", le="0.5")] == 1
    assert said[key("stitchweb_queue_wait_seconds_bucket", queue="run.cpu", le="5.0")] == 2
    assert said[key("stitchweb_queue_wait_seconds_bucket", queue="run.cpu", le="+Inf")] == 3
    assert said[key("stitchweb_queue_wait_seconds_sum", queue="run.cpu")] == pytest.approx(23.3)
    assert said[key("stitchweb_step_seconds_count", kind="analyse")] == 2
    assert said[key("stitchweb_step_seconds_sum", kind="analyse")] == pytest.approx(44)
    assert said[key("stitchweb_jobs_ended_total", queue="run.cpu", state="failed")] == 1
    assert said[key("stitchweb_device_seconds_total", queue="run.cpu")] == 45
    assert said[key("stitchweb_verdicts_total", verdict="verified", target="cpu")] == 1
    assert said[key("stitchweb_tokens_total")] == 10
    assert said[key("stitchweb_gpu_use_ratio", runner="gpu0")] == 0.75
    assert said[key("stitchweb_runner_up", runner="gpu0", state="active")] == 1


@pytest.mark.django_db
def test_their_number_of_queries_does_not_grow(world: World, django_assert_max_num_queries: Any) -> None:
    with django_assert_max_num_queries(9):
        told(Client())


@pytest.mark.django_db
def test_only_who_may_reads_them(world: World, settings: Any) -> None:
    far = Client(REMOTE_ADDR="10.1.2.3")
    assert far.get("/metrics").status_code == 403
    assert Client().get("/metrics", headers={"X-Forwarded-For": "10.1.2.3"}).status_code == 403
    settings.METRICS_TOKEN = "right"
    assert Client().get("/metrics").status_code == 403
    assert far.get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 403
    assert far.get("/metrics", headers={"Authorization": "Bearer right"}).status_code == 200


@pytest.mark.django_db
def test_what_each_process_measured_is_added_up(settings: Any) -> None:
    code = (
        "import django; django.setup()\nfrom stitchweb.core.measures import event_lag\n"
        "event_lag().observe(0.03); event_lag().observe(3)"
    )
    env = {
        "PATH": os.defpath, "DATA_DIR": str(settings.METRICS_DIR.parent), "DJANGO_SETTINGS_MODULE": "stitchweb.settings",
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, check=True, timeout=60)
    said = told(Client())
    assert said[key("stitchweb_event_lag_seconds_count")] == 4
    assert said[key("stitchweb_event_lag_seconds_bucket", le="0.05")] == 2


@pytest.mark.django_db
def test_a_process_lives_while_its_broker_is_away_and_is_not_ready(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from stitchweb.operate.views import health

    settings.BROKER_URL = "unix:///nowhere.sock"
    assert Client().get("/healthz").json() == {"ok": True}
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"ok": False, "database": True, "broker": False})
    monkeypatch.setattr(health, "_broker", lambda: True)
    assert Client().get("/readyz").status_code == 200


def test_the_log_as_json_has_the_ids_of_what_is_worked_on() -> None:
    record = logging.LogRecord("x", logging.WARNING, __file__, 1, "it %s\nbroke", ("ünd",), None)
    with logs.about(run=7), logs.about(step=3):
        line = logs.JsonLines().format(record)
    assert "\n" not in line
    said = json.loads(line)
    assert said.pop("at").endswith("+00:00")
    assert said == {"level": "WARNING", "logger": "x", "said": "it ünd\nbroke", "run": 7, "step": 3}
    assert "run" not in json.loads(logs.JsonLines().format(record))


def test_an_exception_in_the_json_log_keeps_its_stack() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, __file__, 1, "broke", (), sys.exc_info())
    assert "ValueError: no" in json.loads(logs.JsonLines().format(record))["error"]


def test_a_span_costs_nothing_where_nobody_collects_and_says_what_is_missing(settings: Any) -> None:
    with tracing.span("step.plan", run=1):
        pass
    settings.OTEL_ENDPOINT = "http://127.0.0.1:4318"
    tracing._tracer.cache_clear()
    if importlib.util.find_spec("opentelemetry") is None:
        with pytest.raises(ImproperlyConfigured, match="pip install opentelemetry-sdk"), tracing.span("x"):
            pass
