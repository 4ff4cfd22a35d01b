"""What is deleted is gone: every table, every file; and what belongs to others stays."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.apps import apps
from django.core.cache import cache
from django.core.files.base import ContentFile
from django.db import models
from django.test import Client

from stitchweb.core.permissions import Who
from stitchweb.runs.blobs import INLINE, RunBlobs
from stitchweb.runs.models import Artifact, Blob, Event, Run, RunState
from stitchweb.runs.parting import GONE
from stitchweb.runs.services import start_run
from stitchweb.teams import people
from stitchweb.teams.deletion import delete_account, delete_team
from stitchweb.teams.export import everything, export, references
from stitchweb.teams.models import LoginLink, Membership, Role, User
from stitchweb.teams.services import create_team, create_user, make_login_link, set_role
from tests.agents.loop_world import options
from tests.conftest import World, build_world
from tests.stitchweb.matrix.stage import Stage
from tests.stitchweb.test_permission_matrix import all_visits

SHARED = b"what two teams have in common" * 10_000
OWN = b"of one team alone" * 20_000
assert min(len(SHARED), len(OWN)) > INLINE


def rows() -> dict[str, int]:
    """How many rows each table has."""
    return {model._meta.label: model._base_manager.count() for model in apps.get_models(include_auto_created=True)}


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


SITES_OWN = ("runs.Runner", "runs.JoinToken")  # of no team and no person


def more_than(before: dict[str, int]) -> dict[str, int]:
    """Tables with more rows than before, by how many."""
    return {name: n - before[name] for name, n in rows().items() if n != before[name] and name not in SITES_OWN}


@pytest.mark.django_db(transaction=True)
def test_a_team_goes_with_every_row_and_file_and_takes_nothing_of_others(settings: Any) -> None:
    """And then its people, each with what is their own: afterwards every table is as it was before any of them came."""
    elsewhere = build_world()
    other = start_run(elsewhere.owner, elsewhere.revision, options())
    RunBlobs(other.pk).put(SHARED)
    before, stored, first = rows(), files(Path(settings.MEDIA_ROOT)), User.objects.latest("pk").pk
    stage = Stage()
    all_visits(stage)  # what else the apps make: publications, links, releases with files, tokens, hooks
    mine = stage.world.done
    ref = RunBlobs(mine.pk).put(OWN)
    RunBlobs(mine.pk).put(SHARED)
    artifact = Artifact(job=stage.job, name="report.json", size=2, sha256="0" * 64)
    artifact.file.save("report.json", ContentFile(b"{}"), save=True)
    assert len(files(Path(settings.MEDIA_ROOT)) - stored) >= 3
    assert len(more_than(before)) > 25
    counts = delete_team(stage.people[Who.OWNER], stage.team)
    assert counts["runs.Run"] >= 5
    assert files(Path(settings.MEDIA_ROOT)) == stored
    assert not Blob.objects.filter(pk=ref.sha256).exists()
    for person in User.objects.filter(pk__gt=first).order_by("pk"):
        delete_account(person)
    assert more_than(before) == {}
    assert Blob.objects.filter(runs=other, size=len(SHARED)).exists()


def test_every_column_that_names_a_stored_file_is_known_to_what_deletes() -> None:
    """A FileField goes by itself; a name in a text column is for the app's parting: a new one has to be added there."""
    columns = [(model._meta.label, field) for model in apps.get_models() for field in model._meta.fields]
    named = {label for label, field in columns if field.name == "file" and isinstance(field, models.CharField)}
    assert named - {"review.Mark"} == {"runs.Blob", "datasets.Release", "datasets.Export", "datasets.Judge"}


@pytest.mark.django_db
def test_only_an_owner_deletes_a_team_and_only_with_its_name_typed(world: World) -> None:
    set_role(world.team, world.teammate, Role.MAINTAINER)
    page = f"/teams/{world.team.slug}/delete"
    client = Client()
    client.force_login(world.teammate)
    assert client.post(page, {"name": world.team.name}).status_code == 403
    client.force_login(world.owner)
    assert client.post(page, {"name": "Kernel"}).status_code == 409
    assert world.owner.teams.filter(pk=world.team.pk).exists()
    client.post(page, {"name": world.team.name})
    assert not world.owner.teams.filter(pk=world.team.pk).exists()


@pytest.mark.django_db(transaction=True)
def test_an_account_goes_with_what_is_its_own_and_leaves_what_is_the_teams() -> None:
    world = build_world()
    run = start_run(world.teammate, world.revision, options())
    Event.objects.create(
        run=run,
        seq=run.last_seq + 1,
        kind="control.changed",
        who="Teammate",
        at=1.0,
        payload={"by": "Teammate", "kind": "hint"},
    )
    stored = RunState.objects.get(run=run)
    stored.state = stored.state | {"controls": [{"by": "Teammate", "text": "tiles"}]}
    stored.save()
    alone = create_team(world.teammate, "Alone")
    make_login_link(world.teammate)
    Authenticator.objects.create(user=world.teammate, type="totp", data={"secret": "x"})
    browser = Client()
    browser.force_login(world.teammate)
    pk = world.teammate.pk
    delete_account(world.teammate)
    assert not User.objects.filter(pk=pk).exists()
    assert not Membership.objects.filter(team=alone).exists()
    assert not LoginLink.objects.exists()
    assert browser.get("/").status_code == 302
    for model, field in references():
        assert not model._base_manager.filter(**{field: pk}).exists(), (model, field)
    run = Run.objects.get(pk=run.pk)
    assert run.owner is None
    told = json.dumps([[e.who, e.payload] for e in Event.objects.filter(run=run)]) + json.dumps(run.stored.state)
    assert "Teammate" not in told
    assert told.count(GONE) >= 3


@pytest.mark.django_db
def test_the_only_owner_hands_over_first(world: World) -> None:
    with pytest.raises(people.Refused, match="only owner of Kernel crew"):
        delete_account(world.owner)
    assert User.objects.filter(pk=world.owner.pk).exists()
    client = Client()
    client.force_login(world.owner)
    assert world.team.memberships.count() == 4


@pytest.mark.django_db
def test_the_page_deletes_only_for_who_proved_who_they_are_and_meant_it(world: World) -> None:
    cache.clear()
    solo = create_user("solo@example.org", "a-long-enough-phrase-7")
    client = Client()
    client.force_login(solo)
    sent = client.post("/account/delete", {"email": "other@example.org"})
    assert sent["Location"].startswith("/account/reauthenticate/")
    answer = client.post(sent["Location"], {"password": "a-long-enough-phrase-7"})
    assert answer.status_code == 409  # the form that was sent goes on, and is not what was meant
    assert client.post("/account/delete", {"email": "Solo@example.org"})["Location"] == "/login/"
    assert not User.objects.filter(email="solo@example.org").exists()


@pytest.mark.django_db
def test_the_export_holds_every_row_about_the_person_and_no_secret(world: World) -> None:
    run = start_run(world.owner, world.revision, options())
    link = make_login_link(world.owner)
    Authenticator.objects.create(user=world.owner, type="totp", data={"secret": "very-secret-seed"})
    world.owner.set_password("a-long-enough-phrase-7")
    world.owner.save()
    with zipfile.ZipFile(io.BytesIO(export(world.owner))) as bundle:
        told = {name: bundle.read(name).decode() for name in bundle.namelist()}
    tables = {name.removesuffix(".json") for name in told} - {"README.txt"}
    expected = {
        model._meta.label_lower
        for model, field in references()
        if model._base_manager.filter(**{field: world.owner.pk}).exists()
    }
    assert tables == expected | {"teams.user"}
    assert {"runs.run", "programs.program", "teams.membership", "account.emailaddress"} <= tables
    assert [row["id"] for row in json.loads(told["runs.run.json"])] == [run.pk]
    assert json.loads(told["teams.user.json"])[0]["email"] == world.owner.email
    whole = "".join(told.values())
    for secret in (
        "very-secret-seed",
        world.owner.password,
        link.removeprefix("/login/"),
        LoginLink.objects.get().token_sha256,
    ):
        assert secret not in whole


@pytest.mark.django_db
def test_the_export_is_ones_own_alone(world: World) -> None:
    told = json.dumps(everything(world.outsider), default=str)
    for other in (world.owner, world.teammate, world.expert):
        assert other.email not in told


@pytest.mark.django_db
def test_the_export_comes_as_a_file_and_not_too_often(world: World) -> None:
    cache.clear()
    client = Client()
    client.force_login(world.owner)
    answer = client.post("/account/export")
    assert answer["Content-Type"] == "application/zip"
    assert answer["Content-Disposition"].startswith('attachment; filename="stitchweb-')
    for _ in range(9):
        client.post("/account/export")
    refused = client.post("/account/export")
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) > 0
