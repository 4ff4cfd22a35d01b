"""How much one person may upload and run at once, and what is said beyond it. Nothing that was typed is lost."""

from __future__ import annotations

import contextlib
import html
import io
import threading
import zipfile
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.utils import timezone

from agents.engineers.scripted import Scripted
from agents.state import Status
from stitchweb.programs import services as uploading
from stitchweb.programs.models import Program, Revision, Suite
from stitchweb.programs.services import Upload
from stitchweb.runs import quotas, services
from stitchweb.runs.models import Quota, Run
from stitchweb.teams.models import User
from tests.agents.loop_world import options, scripted_name
from tests.conftest import REFERENCE, World, build_world
from tests.stitchweb.conveyor import Conveyor
from tests.stitchweb.test_pages_upload import OPTIONS

pytestmark = pytest.mark.django_db
NEW = REFERENCE + "# new\n"


@pytest.fixture
def client(world: World) -> Client:
    Revision.objects.update(created_at=timezone.now() - timedelta(days=1))
    client = Client()
    client.force_login(world.owner)
    return client


def post(client: Client, **fields: Any) -> Any:
    return client.post("/upload/", OPTIONS | fields)


def archive(count: int) -> SimpleUploadedFile:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as zipped:
        for number in range(count):
            zipped.writestr(f"suite/p{number}.py", NEW + f"# {number}\n")
    return SimpleUploadedFile("suite.zip", data.getvalue())


def test_beyond_the_hours_programs_the_form_says_when_it_would_be_taken_and_keeps_the_text(
    client: Client, settings: Any
) -> None:
    settings.UPLOADS_PER_HOUR = 2
    for number in range(2):
        assert post(client, text=NEW + f"# {number}\n", action="save").status_code == 302
    Revision.objects.filter(text__contains="# 0").update(created_at=timezone.now() - timedelta(minutes=50, seconds=30))
    answer = post(client, text=NEW, name="kept")
    page = html.unescape(answer.content.decode())
    assert answer.status_code == 422
    assert "In the last hour you have uploaded 2 of the 2 programs that one person may upload." in page
    assert "Send it again in 10 minutes" in page
    assert "Your text is still in the form below." in page
    assert NEW.strip() in page
    assert 'value="kept"' in page
    Revision.objects.filter(text__contains="# 0").update(created_at=timezone.now() - timedelta(minutes=61))
    assert post(client, text=NEW).status_code == 302


def test_a_suite_counts_with_all_its_programs(client: Client, settings: Any) -> None:
    settings.UPLOADS_PER_HOUR = 5
    answer = post(client, files=archive(6), action="save")
    assert answer.status_code == 422
    assert "It holds 6 programs; one person may upload 5 in an hour." in answer.content.decode()
    assert not Suite.objects.exists()
    assert post(client, files=archive(3), action="save").status_code == 302
    assert post(client, files=archive(3), action="save").status_code == 422
    assert Program.objects.count() == 1 + 3


def test_a_revision_counts_and_the_same_text_again_does_not(client: Client, settings: Any, world: World) -> None:
    settings.UPLOADS_PER_HOUR = 1
    program = str(world.revision.program_id)
    assert post(client, text=world.revision.text, program=program, action="save").status_code == 302
    assert post(client, text=NEW, program=program, action="save").status_code == 302
    assert post(client, text=NEW + "#\n", program=program, action="save").status_code == 422


def test_one_persons_uploads_are_not_anothers(client: Client, settings: Any, world: World) -> None:
    settings.UPLOADS_PER_HOUR = 1
    post(client, text=NEW, action="save")
    other = Client()
    other.force_login(world.teammate)
    assert post(other, text=NEW, action="save").status_code == 302


def test_beyond_the_runs_at_once_nothing_is_stored_and_the_way_out_is_named(client: Client, settings: Any) -> None:
    settings.RUNS_AT_ONCE = 1
    assert post(client, text=NEW).status_code == 302
    answer = post(client, text=NEW + "# second\n")
    page = html.unescape(answer.content.decode())
    assert answer.status_code == 422
    assert "You have as many runs at once as one person may have: 1." in page
    assert "Only analyse keeps the program" in page
    assert "# second" in page
    assert Program.objects.count() == 2
    assert post(client, text=NEW + "# second\n", action="save").status_code == 302
    Run.objects.update(status=Status.CANCELLED.value)
    assert post(client, text=NEW + "# third\n").status_code == 302


def test_a_file_that_is_refused_for_it_stands_in_the_form(client: Client, settings: Any) -> None:
    settings.RUNS_AT_ONCE = 0
    answer = post(client, files=SimpleUploadedFile("mine.py", NEW.encode()))
    assert NEW.strip() in html.unescape(answer.content.decode())


def test_a_suite_starts_as_many_runs_as_there_is_room_for_and_says_so(client: Client, settings: Any) -> None:
    settings.RUNS_AT_ONCE = 2
    answer = post(client, files=archive(3))
    assert Run.objects.count() == 2
    assert Program.objects.count() == 1 + 3
    assert "2 runs were started: one person may have 2 at once." in client.get(answer.headers["Location"]).content.decode()


def test_the_limit_holds_on_a_programs_page_and_for_running_again(client: Client, settings: Any, world: World) -> None:
    settings.RUNS_AT_ONCE = 1
    page = f"/programs/{world.revision.program_id}/"
    assert client.post(page, OPTIONS | {"action": "start"}).status_code == 302
    refused = client.post(page, OPTIONS | {"action": "start", "attempts": "7"})
    assert refused.status_code == 422
    assert "as many runs at once" in refused.content.decode()
    assert 'value="7"' in refused.content.decode()
    run = Run.objects.get()
    answer = client.post(f"/runs/{run.pk}/again", follow=True)
    assert "as many runs at once" in answer.content.decode()
    assert Run.objects.count() == 1


def run(world: World, person: User) -> None:
    services.start_run(person, world.revision, options(scripted_name(Scripted())))


def upload(world: World, person: User) -> None:
    uploading.create_program(person, world.team, Upload(text=NEW))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("do", "counts", "people", "made"),
    [
        (run, (services, "runs_left"), ("owner", "owner"), Run),
        (run, (quotas, "used"), ("owner", "teammate"), Run),
        (upload, (uploading, "_create"), ("teammate", "teammate"), Program),
    ],
    ids=["runs of a person", "runs of a team", "uploads"],
)
def test_of_two_at_the_same_moment_only_one_finds_room(
    do: Callable[[World, User], None], counts: tuple[Any, str], people: tuple[str, str], made: type[Run | Program],
    settings: Any, monkeypatch: pytest.MonkeyPatch, conveyor: Conveyor,
) -> None:  # fmt: skip
    world, together, refused = build_world(), threading.Barrier(2), list[str]()
    settings.RUNS_AT_ONCE = settings.UPLOADS_PER_HOUR = 1
    if counts[0] is quotas:
        Quota.objects.create(team=world.team, runs=1)
    before, (owner, name) = made.objects.count(), counts
    real = getattr(owner, name)

    def slowly(*given: Any) -> Any:
        """Has counted, or been counted: waits for the other one to come as far, for a moment where that waits for this one."""
        found = real(*given) if do is run else None
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(0.5)
        return found if do is run else real(*given)

    monkeypatch.setattr(owner, name, slowly)

    def try_it(person: str) -> None:
        try:
            do(world, getattr(world, person))
        except (services.TooManyRuns, uploading.UploadRefused) as refusal:
            refused.append(str(refusal))
        finally:
            connection.close()

    threads = [threading.Thread(target=try_it, args=(person,)) for person in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (made.objects.count() - before, len(refused)) == (1, 1)
