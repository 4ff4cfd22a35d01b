"""Who gets in, and what each role may see and do."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.core.management import CommandError, call_command
from django.db import IntegrityError
from django.http import Http404
from django.test import Client

from stitchweb.programs.access import program_for, programs_for, revision_for, suite_for
from stitchweb.review.permissions import MANAGE, SCORE
from stitchweb.runs import services
from stitchweb.runs.access import artifacts_for, blob_for, may_watch, run_for, run_to_steer, runs_for
from stitchweb.runs.blobs import RunBlobs
from stitchweb.teams.access import memberships_for, require, role_of, team_for, teams_for
from stitchweb.teams.models import Role, User
from stitchweb.teams.services import LinkRefused, create_team, create_user, make_login_link, use_login_link
from tests.agents.loop_world import options
from tests.conftest import World


def token(path: str) -> str:
    return path.removeprefix("/login/")


def test_an_address_is_one_person_however_it_is_written(world: World) -> None:
    with pytest.raises(IntegrityError):
        create_user("OWNER@example.org")


def test_a_link_signs_in_once_and_leads_on(world: World) -> None:
    path = make_login_link(world.owner, "/runs/5/")
    client = Client()
    answer = client.get(path)
    assert (answer.status_code, answer["Location"], answer["Referrer-Policy"]) == (302, "/runs/5/", "no-referrer")
    assert client.session["_auth_user_id"] == str(world.owner.pk)
    assert Client().get(path).status_code == 403


def test_a_preview_of_the_link_does_not_spend_it(world: World) -> None:
    path = make_login_link(world.owner)
    assert Client().head(path).status_code == 200
    assert Client().get(path).status_code == 302


def test_a_link_leads_nowhere_else(world: World) -> None:
    assert Client().get(make_login_link(world.owner, "https://evil.example/"))["Location"] == "/"


@pytest.mark.parametrize("case", ["unknown", "expired", "inactive"])
def test_a_link_that_is_not_good_says_why(world: World, case: str) -> None:
    path = make_login_link(world.owner, life=timedelta(seconds=-1) if case == "expired" else timedelta(hours=1))
    if case == "inactive":
        User.objects.filter(pk=world.owner.pk).update(is_active=False)
    with pytest.raises(LinkRefused, match=r"not known|has expired"):
        use_login_link("x" if case == "unknown" else token(path))


def test_the_command_prints_a_link(world: World) -> None:
    out = StringIO()
    call_command("login_link", "owner@example.org", stdout=out)
    assert use_login_link(out.getvalue().strip().rpartition("/login/")[2]).user == world.owner
    with pytest.raises(CommandError, match="several people"):
        call_command("login_link")
    with pytest.raises(CommandError, match="Nobody here"):
        call_command("login_link", "ghost@example.org")


def test_teams_of_one_name_get_different_slugs(world: World) -> None:
    assert create_team(world.owner, "Kernel crew").slug == "kernel-crew-2"
    assert create_team(world.owner, "???").slug == "team"


def test_an_outsiders_world_does_not_contain_the_team(world: World) -> None:
    assert set(teams_for(world.outsider)) == {world.others}
    assert role_of(world.outsider, world.team.pk) is None
    with pytest.raises(Http404):
        team_for(world.outsider, world.team.slug)
    assert not teams_for(AnonymousUser()).exists()
    assert not memberships_for(AnonymousUser()).exists()


def test_inside_the_team_a_missing_role_is_named(world: World) -> None:
    with pytest.raises(PermissionDenied, match="You are member of this team and this needs a maintainer"):
        require(world.teammate, world.team.pk, MANAGE)
    assert require(world.expert, world.team.pk, SCORE) is Role.REVIEWER


def test_programs_are_the_teams(world: World) -> None:
    pk = world.revision.program_id
    assert program_for(world.viewer, pk).revision_id == world.revision.pk
    assert revision_for(world.viewer, world.revision.pk) == world.revision
    assert not programs_for(world.outsider).exists()
    for missing in (program_for, revision_for, suite_for):
        with pytest.raises(Http404):
            missing(world.outsider, pk)


def test_runs_and_what_they_hold_are_the_teams(world: World) -> None:
    run = services.start_run(world.owner, world.revision, options())
    ref = RunBlobs(run.pk).put(b"text")
    assert run_for(world.viewer, run.pk) == run
    assert may_watch(world.viewer, run.pk)
    assert blob_for(world.viewer, run.pk, ref.sha256).size == 4
    assert not runs_for(world.outsider).exists()
    assert not may_watch(world.outsider, run.pk)
    assert not artifacts_for(world.outsider, run.pk).exists()
    with pytest.raises(Http404):
        run_for(world.outsider, run.pk)
    with pytest.raises(Http404):
        blob_for(world.outsider, run.pk, ref.sha256)


def test_a_blob_of_another_run_is_not_read_through_ones_own(world: World) -> None:
    own = services.start_run(world.owner, world.revision, options())
    other = services.start_run(world.owner, world.revision, options())
    ref = RunBlobs(other.pk).put(b"of the other")
    with pytest.raises(Http404):
        blob_for(world.owner, own.pk, ref.sha256)
    with pytest.raises(KeyError):
        RunBlobs(own.pk).get(ref)


@pytest.mark.parametrize("who", ["viewer", "expert"])
def test_who_only_watches_starts_and_steers_nothing(world: World, who: str) -> None:
    person = getattr(world, who)
    run = services.start_run(world.owner, world.revision, options())
    with pytest.raises(PermissionDenied):
        services.start_run(person, world.revision, options())
    with pytest.raises(PermissionDenied):
        run_to_steer(person, run.pk)
    with pytest.raises(PermissionDenied):
        services.control(person, run, "cancel")


def test_a_list_of_runs_costs_the_same_however_long_it_is(world: World, django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
    for _ in range(5):
        services.start_run(world.owner, world.revision, options())
    with django_assert_num_queries(1):
        assert [run.revision.program.name for run in runs_for(world.teammate)] == ["layernorm"] * 5


def test_a_login_link_among_several_people_names_them(world: World) -> None:
    with pytest.raises(CommandError, match=r"owner@example\.org, teammate@example\.org"):
        call_command("login_link")


def test_the_first_person_of_a_site_is_made_with_a_team_and_signed_in_by_a_link(db: None) -> None:
    for _ in range(2):
        out = StringIO()
        call_command("login_link", "New@Example.org", create=True, stdout=out)
        person = use_login_link(token(out.getvalue().strip().partition("8000")[2])).user
        assert person.email == "new@example.org"
    assert teams_for(person).count() == 1
    with pytest.raises(CommandError, match="is no address"):
        call_command("login_link", "nobody", create=True)
