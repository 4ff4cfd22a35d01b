"""Teams: invitations by link and by mail, roles, hand-over, leaving, and the switch between several."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.utils import timezone

from stitchweb.programs.services import Upload, create_program
from stitchweb.teams import people
from stitchweb.teams.access import role_of
from stitchweb.teams.invitations import InvitationRefused, accept, invite, revoke
from stitchweb.teams.models import Invitation, Membership, Role, User
from stitchweb.teams.services import create_team, set_role
from tests.conftest import REFERENCE, World

pytestmark = pytest.mark.django_db
PASSWORD = "a-long-enough-phrase-7"


@pytest.fixture(autouse=True)
def fresh() -> None:
    cache.clear()


def client_of(user: User | None) -> Client:
    client = Client()
    if user:
        client.force_login(user)
    return client


def text(answer: Any) -> str:
    return answer.content.decode()


def pk(world: World, user: User) -> int:
    return Membership.objects.get(team=world.team, user=user).pk


def token(address: str) -> str:
    return address.rpartition("/")[2]


def path(address: str) -> str:
    return f"/invitations/{token(address)}"


def test_a_link_lets_a_person_in_as_what_it_says(world: World) -> None:
    _, address = invite(world.owner, world.team, Role.MEMBER)
    client = client_of(world.outsider)
    page = text(client.get(path(address)))
    assert "Kernel crew invites you" in page
    assert "as member" in page
    assert role_of(world.outsider, world.team.pk) is None
    client.post(path(address))
    assert role_of(world.outsider, world.team.pk) is Role.MEMBER
    assert client_of(world.outsider).get(path(address)).status_code == 404  # it was for one


def test_a_link_for_several_lets_in_so_many(world: World) -> None:
    made, address = invite(world.owner, world.team, Role.VIEWER, most=2)
    for turn in range(2):
        accept(User.objects.create_user(f"p{turn}@example.org"), token(address))
    with pytest.raises(InvitationRefused):
        accept(User.objects.create_user("late@example.org"), token(address))
    made.refresh_from_db()
    assert (made.used, made.good) == (2, False)


def test_who_is_in_already_keeps_their_role_and_spends_nothing(world: World) -> None:
    made, address = invite(world.owner, world.team, Role.VIEWER)
    assert accept(world.owner, token(address)).role == Role.OWNER
    made.refresh_from_db()
    assert made.used == 0


@pytest.mark.parametrize("case", ["revoked", "expired", "unknown"])
def test_a_link_that_is_not_good_says_so_and_tells_nothing_of_the_team(world: World, case: str) -> None:
    made, address = invite(world.owner, world.team, Role.MEMBER)
    if case == "revoked":
        revoke(world.owner, world.team, made.pk)
    if case == "expired":
        Invitation.objects.filter(pk=made.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    place = "/invitations/nonsense" if case == "unknown" else path(address)
    for method in ("get", "post"):
        answer = getattr(client_of(world.outsider), method)(place)
        assert answer.status_code == 404
        assert "sk for a new one" in text(answer)
        assert "Kernel crew" not in text(answer)
    assert role_of(world.outsider, world.team.pk) is None


def test_who_manages_sees_for_a_month_how_invitations_ended(world: World) -> None:
    names = ("open", "late", "back", "old")
    made = {name: invite(world.owner, world.team, Role.MEMBER, f"{name}@example.org")[0] for name in names}
    now = timezone.now()
    for name, days in (("late", 1), ("old", 31)):
        Invitation.objects.filter(pk=made[name].pk).update(expires_at=now - timedelta(days=days))
    revoke(world.owner, world.team, made["back"].pk)
    shown, ended = text(client_of(world.owner).get(f"/teams/{world.team.slug}/")).split("<summary>Ended")
    assert "open@example.org" in shown
    assert "open@example.org" not in ended
    assert re.search(r"late@example\.org.*?nobody came.*?expired", ended, re.S)
    assert re.search(r"back@example\.org.*?taken back", ended, re.S)
    assert "old@example.org" not in shown + ended
    assert "example.org" not in text(client_of(world.teammate).get(f"/teams/{world.team.slug}/")).partition("Ended")[2]


def test_an_invitation_by_mail_makes_an_account_that_is_proved_and_in(world: World, settings: Any) -> None:
    settings.EMAIL_HOST = "mail.example"  # so that only the invitation can have proved the address
    with_callbacks = client_of(world.owner)
    with_callbacks.post(f"/teams/{world.team.slug}/invite", {"role": "reviewer", "email": "New@Example.org"})
    # The mail leaves when the transaction is committed.
    made, address = invite(world.owner, world.team, Role.REVIEWER, "new@example.org")
    client = client_of(None)
    shown = client.get(path(address))
    # Under "no-referrer" a browser sends the form that joins with the origin null, and is refused.
    assert shown["Referrer-Policy"] == "same-origin"
    page = text(shown)
    signup = re.search(r'href="(/account/signup/[^"]+)"', page)
    assert signup
    answer = client.post(signup[1], {"email": "new@example.org", "password1": PASSWORD, "next": path(address)})
    assert answer["Location"] == path(address)
    new = User.objects.get(email="new@example.org")
    assert client.session["_auth_user_id"] == str(new.pk)
    client.post(path(address))
    assert role_of(new, world.team.pk) is Role.REVIEWER
    made.refresh_from_db()
    assert made.used == 1


def test_an_invitation_says_whether_a_letter_leaves(world: World, settings: Any) -> None:
    owner = client_of(world.owner)
    for backend, said in (("smtp", "is on its way to"), ("console", "this site sends no mail")):
        settings.EMAIL_BACKEND = f"django.core.mail.backends.{backend}.EmailBackend"
        answer = owner.post(f"/teams/{world.team.slug}/invite", {"role": "member", "email": "new@example.org"}, follow=True)
        assert said in text(answer)


@pytest.mark.django_db(transaction=True)
def test_the_mail_says_who_invites_and_how_long(settings: Any) -> None:
    from tests.conftest import build_world

    world = build_world()
    client_of(world.owner).post(f"/teams/{world.team.slug}/invite", {"role": "reviewer", "email": "new@example.org"})
    [sent] = mail.outbox
    assert sent.to == ["new@example.org"]
    assert sent.subject == "Owner invites you to Kernel crew"
    assert "as reviewer" in sent.body
    assert f"{settings.SITE_URL}/invitations/" in sent.body


def test_the_link_is_shown_once_and_never_stored(world: World) -> None:
    client = client_of(world.owner)
    page = text(client.post(f"/teams/{world.team.slug}/invite", {"role": "viewer", "most": "3"}))
    shown = re.search(r"/invitations/([\w-]{20,})", page)
    assert shown
    assert shown[1] not in text(client.get(f"/teams/{world.team.slug}/"))
    assert Invitation.objects.get().token_sha256 != shown[1]


def test_a_wrong_address_is_told_and_the_rest_stays(world: World) -> None:
    answer = client_of(world.owner).post(f"/teams/{world.team.slug}/invite", {"role": "viewer", "email": "no address"})
    assert answer.status_code == 422
    assert "valid email" in text(answer)
    assert "no address" in text(answer)
    assert not Invitation.objects.exists()


def test_a_maintainer_manages_people_but_makes_and_unmakes_no_owner(world: World) -> None:
    set_role(world.team, world.teammate, Role.MAINTAINER)
    people.change_role(world.teammate, world.team, pk(world, world.viewer), Role.MEMBER)
    assert role_of(world.viewer, world.team.pk) is Role.MEMBER
    for act in (
        lambda: people.change_role(world.teammate, world.team, pk(world, world.viewer), Role.OWNER),
        lambda: people.change_role(world.teammate, world.team, pk(world, world.owner), Role.VIEWER),
        lambda: people.remove(world.teammate, world.team, pk(world, world.owner)),
        lambda: people.transfer(world.teammate, world.team, pk(world, world.viewer)),
        lambda: invite(world.teammate, world.team, Role.OWNER),
    ):
        with pytest.raises(PermissionDenied):
            act()
    assert role_of(world.owner, world.team.pk) is Role.OWNER


def test_a_team_keeps_an_owner(world: World) -> None:
    for act in (
        lambda: people.leave(world.owner, world.team),
        lambda: people.remove(world.owner, world.team, pk(world, world.owner)),
        lambda: people.change_role(world.owner, world.team, pk(world, world.owner), Role.MEMBER),
    ):
        with pytest.raises(people.Refused, match="only owner"):
            act()
    people.transfer(world.owner, world.team, pk(world, world.teammate))
    assert role_of(world.teammate, world.team.pk) is Role.OWNER
    assert role_of(world.owner, world.team.pk) is Role.MAINTAINER
    people.leave(world.owner, world.team)
    assert role_of(world.owner, world.team.pk) is None


def test_who_is_removed_is_out_at_once(world: World) -> None:
    client = client_of(world.viewer)
    page = f"/programs/{world.revision.program_id}/"
    assert client.get(page).status_code == 200
    client_of(world.owner).post(f"/teams/{world.team.slug}/people/{pk(world, world.viewer)}/remove")
    assert client.get(page).status_code == 404


def test_a_number_of_another_team_is_nobody_here(world: World) -> None:
    other = Membership.objects.get(team=world.others)
    answer = client_of(world.owner).post(f"/teams/{world.team.slug}/people/{other.pk}/remove")
    assert answer.status_code == 404
    assert Membership.objects.filter(pk=other.pk).exists()


def test_the_switch_shows_one_team_or_all(world: World) -> None:
    second = create_team(world.owner, "Second crew")
    create_program(world.owner, second, Upload(text=REFERENCE + "# two\n", filename="second.py"))
    client = client_of(world.owner)
    assert "layernorm" in text(client.get("/"))
    assert "second" in text(client.get("/"))
    client.post("/teams/choose", {"team": second.slug})
    page = text(client.get("/"))
    assert "Second crew" in page
    assert "layernorm" not in re.sub(r"upload[^>]*", "", page)
    assert client.get(f"/programs/{world.revision.program_id}/").status_code == 200  # it hides lists, not rows
    client.post("/teams/choose", {"team": ""})
    assert "layernorm" in text(client.get("/"))


def test_nobody_chooses_a_team_of_others(world: World) -> None:
    assert client_of(world.outsider).post("/teams/choose", {"team": world.team.slug}).status_code == 404


def test_the_page_of_a_team_costs_the_same_however_many_are_in_it(world: World, django_assert_num_queries: Any) -> None:
    client = client_of(world.owner)
    page = f"/teams/{world.team.slug}/"
    client.get(page)
    with django_assert_num_queries(10) as before:
        client.get(page)
    for turn in range(5):
        set_role(world.team, User.objects.create_user(f"p{turn}@example.org"), Role.VIEWER)
        invite(world.owner, world.team, Role.VIEWER)
    with django_assert_num_queries(len(before)):
        client.get(page)


def test_a_form_sent_twice_makes_one_team(world: World) -> None:
    client = client_of(world.owner)
    word = re.search(r'name="once" value="([^"]+)"', text(client.get("/teams/")))
    assert word
    for _ in range(2):
        client.post("/teams/", {"name": "Third crew", "once": word[1]})
    assert world.owner.teams.filter(name="Third crew").count() == 1


def test_a_reader_sees_people_and_no_controls(world: World) -> None:
    page = text(client_of(world.viewer).get(f"/teams/{world.team.slug}/"))
    assert "Teammate" in page
    assert "Invite" not in page
    assert "Remove" not in page
    assert "Leave the team" in page
