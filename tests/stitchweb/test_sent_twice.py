"""A form that is sent twice is taken once."""

from __future__ import annotations

import re
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.utils import timezone

from stitchweb.core.models import Submission
from stitchweb.programs.models import Program
from stitchweb.runs.models import Control, Run
from tests.conftest import REFERENCE, World
from tests.stitchweb.test_pages_upload import OPTIONS

NEW = REFERENCE + "# new\n"


@pytest.fixture
def client(world: World) -> Client:
    client = Client()
    client.force_login(world.owner)
    return client


def word(client: Client, page: str) -> str:
    found = re.findall(r'name="once" value="([\w-]{16,})"', client.get(page).content.decode())
    assert len(found) == 1
    return str(found[0])


@pytest.mark.django_db
@pytest.mark.parametrize("action", ["start", "save"])
def test_an_upload_sent_twice_makes_one_program_and_leads_to_it_both_times(client: Client, action: str) -> None:
    sent = OPTIONS | {"text": NEW, "action": action, "once": word(client, "/upload/")}
    first, second = client.post("/upload/", sent), client.post("/upload/", sent)
    assert (first.status_code, second.status_code) == (302, 302)
    assert second.headers["Location"] == first.headers["Location"]
    assert Program.objects.count() == 2
    assert Run.objects.count() == (1 if action == "start" else 0)
    assert "taken once" in client.get(first.headers["Location"]).content.decode()


@pytest.mark.django_db
def test_each_showing_of_a_form_is_another_one(client: Client) -> None:
    for _ in range(2):
        client.post("/upload/", OPTIONS | {"text": NEW, "once": word(client, "/upload/")})
    assert Run.objects.count() == 2


@pytest.mark.django_db
def test_a_form_that_was_changed_after_going_back_is_another_one(client: Client) -> None:
    once = word(client, "/upload/")
    client.post("/upload/", OPTIONS | {"text": NEW, "once": once})
    client.post("/upload/", OPTIONS | {"text": NEW + "# changed\n", "once": once})
    for end in ("# a", "# b"):  # a file of the same name and size
        file = SimpleUploadedFile("m.py", (NEW + end).encode())
        client.post("/upload/", OPTIONS | {"files": file, "once": once})
    assert Run.objects.count() == 4


@pytest.mark.django_db
def test_a_file_that_is_sent_twice_is_taken_once_and_whole(client: Client) -> None:
    once = word(client, "/upload/")
    for _ in range(2):
        client.post("/upload/", OPTIONS | {"files": SimpleUploadedFile("m.py", NEW.encode()), "once": once})
    assert Run.objects.get().revision.text == NEW


@pytest.mark.django_db
def test_a_form_that_was_refused_may_be_sent_again(client: Client, settings: Any) -> None:
    sent = OPTIONS | {"text": NEW, "once": word(client, "/upload/")}
    settings.RUNS_AT_ONCE = 0
    assert client.post("/upload/", sent).status_code == 422
    assert not Submission.objects.exists()
    settings.RUNS_AT_ONCE = 1
    assert client.post("/upload/", sent).status_code == 302


@pytest.mark.django_db
def test_one_persons_word_says_nothing_about_anothers(client: Client, world: World) -> None:
    other = Client()
    other.force_login(world.teammate)
    sent = OPTIONS | {"text": NEW, "once": word(client, "/upload/")}
    assert client.post("/upload/", sent).headers["Location"] != other.post("/upload/", sent).headers["Location"]


@pytest.mark.django_db
def test_a_run_started_from_a_programs_page_and_one_run_again_are_started_once(client: Client, world: World) -> None:
    page = f"/programs/{world.revision.program_id}/"
    sent = OPTIONS | {"action": "start", "once": word(client, page)}
    assert client.post(page, sent).headers["Location"] == client.post(page, sent).headers["Location"]
    run = Run.objects.get()
    again = {"once": word(client, f"/runs/{run.pk}/")}
    places = {client.post(f"/runs/{run.pk}/again", again).headers["Location"] for _ in range(2)}
    assert len(places) == 1
    assert Run.objects.count() == 2


@pytest.mark.django_db
def test_a_version_written_by_hand_is_taken_once(client: Client, world: World) -> None:
    client.post(f"/programs/{world.revision.program_id}/", OPTIONS | {"action": "start"})
    page = f"/runs/{Run.objects.get().pk}/candidates/reference/edit"
    sent = {"path": "model_new.py", "text": "class ModelNew: pass\n", "once": word(client, page)}
    for _ in range(2):
        assert client.post(page, sent).status_code == 302
    assert Control.objects.filter(kind="candidate").count() == 1


@pytest.mark.django_db
def test_old_words_are_forgotten(client: Client, world: World) -> None:
    Submission.objects.create(user=world.owner, key="old", created_at=timezone.now() - timedelta(hours=2))
    client.post("/upload/", OPTIONS | {"text": NEW, "once": word(client, "/upload/")})
    assert not Submission.objects.filter(key="old").exists()


@pytest.mark.django_db(transaction=True)
def test_two_clicks_at_the_same_moment_make_one_run(world: World) -> None:
    client = Client()
    client.force_login(world.owner)
    sent = OPTIONS | {"text": NEW, "once": word(client, "/upload/")}
    places: list[str] = []
    together = threading.Barrier(3)

    def click() -> None:
        own = Client()
        own.cookies = client.cookies
        together.wait()
        try:
            places.append(own.post("/upload/", sent).headers["Location"])
        finally:
            connection.close()

    threads = [threading.Thread(target=click) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(places) == 3
    assert len(set(places)) == 1
    assert Run.objects.count() == 1
