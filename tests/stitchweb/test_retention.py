"""What is kept no longer goes, what is needed stays, and a dry run only says so."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from stitchweb.operate.retention import LOGS, Forgotten, forget
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.history import view_of
from stitchweb.runs.models import Artifact, Blob, Event, Job, Run
from tests.stitchweb.world_for_tests import World, make_world

pytestmark = pytest.mark.django_db


@pytest.fixture
def told(db: None) -> World:
    world = make_world()
    Run.objects.update(ended_at=timezone.now() - timedelta(days=10))
    return world


def test_everything_is_kept_unless_told_otherwise(told: World) -> None:
    assert forget() == Forgotten()


def test_the_log_of_an_ended_run_is_folded_away_and_its_page_stays(told: World, settings: Any) -> None:
    settings.KEEP_EVENTS_DAYS = 5
    Run.objects.filter(pk=told.live.pk).update(ended_at=None)
    before, facts = view_of(told.done.pk), Event.objects.filter(run=told.done).exclude(kind__in=LOGS).count()
    dry = forget(dry_run=True)
    assert dry.events > 0
    assert Event.objects.filter(run=told.done, kind__in=LOGS).exists()
    assert forget() == dry
    assert not Event.objects.filter(run=told.done, kind__in=LOGS).exists()
    assert Event.objects.filter(run=told.done).count() == facts
    assert view_of(told.done.pk) == before
    assert Event.objects.filter(run=told.live, kind__in=LOGS).exists() == any(
        kind in LOGS for kind in Event.objects.filter(run=told.live).values_list("kind", flat=True)
    )
    client = Client()
    client.force_login(told.owner)
    assert client.get(f"/runs/{told.done.pk}/").status_code == 200
    assert forget().events == 0


def test_files_of_ended_runs_go_with_their_rows(told: World, settings: Any) -> None:
    settings.KEEP_FILES_DAYS = 5
    for run in (told.done, told.live):
        job = Job.objects.create(run=run, kind="profile", queue="run.cpu", task={})
        row = Artifact(job=job, name="trace.json", size=3, sha256="x")
        row.file.save("trace.json", ContentFile(b"abc"))
    gone, stays = Artifact.objects.order_by("pk")
    assert (forget(dry_run=True).artifacts, forget().artifacts) == (1, 1)
    assert not default_storage.exists(gone.file.name)
    assert default_storage.exists(stays.file.name)
    assert list(Artifact.objects.all()) == [stays]


def test_blobs_that_no_run_uses_go_and_others_stay(told: World, settings: Any) -> None:
    settings.KEEP_FILES_DAYS = 5
    used = RunBlobs(told.done.pk).put(b"u" * 300_000)
    lone = RunBlobs(told.done.pk).put(b"l" * 300_000)
    young = RunBlobs(told.done.pk).put(b"y" * 300_000)
    Blob.runs.through.objects.filter(blob__in=[lone.sha256, young.sha256]).delete()
    Blob.objects.exclude(pk=young.sha256).update(created_at=timezone.now() - timedelta(days=6))
    file = Blob.objects.get(pk=lone.sha256).file
    assert forget().blobs == 1
    assert not default_storage.exists(file)
    assert set(Blob.objects.filter(size=300_000).values_list("pk", flat=True)) == {used.sha256, young.sha256}


def test_the_command_says_what_went(told: World, settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("retention")
    assert "kept for ever" in capsys.readouterr().out
    settings.KEEP_EVENTS_DAYS = 5
    call_command("retention", "--dry-run")
    assert "would go" in capsys.readouterr().out
    call_command("retention")
    assert "events" in capsys.readouterr().out
