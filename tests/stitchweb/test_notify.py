"""Who is told of what, on which ways; web hooks signed, guarded, tried again; nothing told to whom it is closed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from django.core import mail
from django.db import connection
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from agents.state import Status
from stitchweb.notify import hooks, kinds, sending
from stitchweb.notify.models import Delivery, DeliveryState, Hook, Notification
from stitchweb.notify.receivers import tell_of_disputes
from stitchweb.notify.services import DELIVER, choose, tell, tell_hooks
from stitchweb.review.models import Rubric
from stitchweb.review.services.labels import set_adjudicators
from stitchweb.review.services.projects import Filters, create_project, fill, set_reviewers
from stitchweb.runs.models import Run
from stitchweb.runs.summary import store
from stitchweb.sharing import signals as sharing
from stitchweb.teams.deletion import delete_account
from stitchweb.teams.models import Role
from stitchweb.teams.services import set_role
from tests.conftest import World
from tests.stitchweb.conveyor import Conveyor
from tests.stitchweb.world_for_tests import make_world


def sentences(user: Any) -> list[str]:
    return list(Notification.objects.filter(user=user).order_by("pk").values_list("sentence", flat=True))


@pytest.fixture
def owner(client: Client, world: World) -> Client:
    client.force_login(world.owner)
    return client


def end(run: Run) -> None:
    """As the orchestrator ends a run."""
    state = run.load()
    store(run, state.model_copy(update={"status": Status.FAILED}))


@pytest.mark.django_db
def test_whoever_started_a_run_is_told_once_that_it_ended(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    told = make_world()
    with django_capture_on_commit_callbacks(execute=True):
        end(told.live)
        end(told.live)
    assert len(sentences(told.owner)) == 1
    assert sentences(told.owner)[0].startswith(f"Run {told.live.pk}, ")
    assert sentences(told.viewer) == []
    note = Notification.objects.get()
    assert note.place == f"/runs/{told.live.pk}/"
    assert not Delivery.objects.exists()  # no mail of this kind, unless one chooses so


@pytest.mark.django_db
def test_nothing_but_the_end_is_told_to_who_scores_the_program_blind(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = make_world()
    monkeypatch.setattr("stitchweb.notify.receivers.may_watch", lambda user, pk: False)
    with django_capture_on_commit_callbacks(execute=True):
        end(told.live)
    assert "failed" not in sentences(told.owner)[0]
    assert "It opens to you when you have scored" in sentences(told.owner)[0]


def test_people_choose_what_they_are_told_and_how(owner: Client, world: World) -> None:
    page = owner.get("/settings/notifications/").content.decode()
    assert re.search(r'value="review.requested/mail"[^>]* checked', page)
    assert not re.search(r'value="run.finished/mail"[^>]* checked', page)
    owner.post("/settings/notifications/", {"want": ["run.finished/mail", "nonsense", "x/y"]})
    assert tell(kinds.RUN_FINISHED, [world.owner, world.teammate], "It ended.", "/runs/1/", "run 1", world.team) == 2
    assert tell(kinds.MENTION, [world.owner], "Named.", "/x", "comment 1", world.team) == 0
    assert owner.get("/notifications/").content.decode().count("It ended.") == 0  # by mail alone
    assert Delivery.objects.get().notification.user == world.owner


def test_a_letter_is_sent_with_its_place(world: World, settings: Any) -> None:
    settings.SITE_URL = "https://stitch.example.org"
    tell(kinds.MENTION, [world.owner], "Ada mentioned you.", "/library/3/#comment-1", "comment 1", world.team)
    sending.deliver(Delivery.objects.get().pk)
    letter = mail.outbox[0]
    assert letter.to == [world.owner.email]
    assert letter.subject == "[Kernel crew] You were mentioned"
    assert "https://stitch.example.org/library/3/#comment-1" in letter.body
    assert Delivery.objects.get().state == DeliveryState.SENT
    sending.deliver(Delivery.objects.get().pk)
    assert len(mail.outbox) == 1


def test_the_page_and_the_bell_show_ones_own_alone(owner: Client, world: World) -> None:
    for number in range(3):
        tell(kinds.MENTION, [world.owner], f"News {number}.", "/status/", f"comment {number}", world.team)
    tell(kinds.MENTION, [world.teammate], "Not for the owner.", "/status/", "comment 9", world.team)
    assert "3 unread" in owner.get("/notifications/bell").content.decode()
    page = owner.get("/notifications/").content.decode()
    assert page.count("News") == 3
    assert "Not for the owner" not in page
    note = Notification.objects.filter(user=world.owner).first()
    assert note is not None
    assert owner.post(f"/notifications/{note.pk}/").headers["Location"] == "/status/"
    assert "2 unread" in owner.get("/notifications/bell").content.decode()
    other = Notification.objects.get(user=world.teammate)
    assert owner.post(f"/notifications/{other.pk}/").status_code == 404
    owner.post("/notifications/read")
    assert "unread" not in owner.get("/notifications/bell").content.decode()
    world.team.memberships.filter(user=world.owner).delete()
    assert "News" not in owner.get("/notifications/").content.decode()


@pytest.mark.django_db
def test_reviews_and_disputes_reach_those_who_are_asked(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    told = make_world()
    set_role(told.team, told.viewer, Role.REVIEWER)
    project = create_project(told.owner, told.team, Rubric.objects.get(key="kernels", version=1), "Norms")
    with django_capture_on_commit_callbacks(execute=True):
        set_reviewers(told.owner, project, [told.viewer.pk, told.owner.pk])
        set_adjudicators(told.owner, project, [told.viewer.pk])
    assert sentences(told.viewer) == [
        "Ada Byron asks you to score candidates in Norms.", "Ada Byron asks you to settle disputes in Norms."
    ]  # fmt: skip
    assert sentences(told.owner) == []
    with django_capture_on_commit_callbacks(execute=True):
        set_reviewers(told.owner, project, [told.viewer.pk, told.owner.pk])
    assert len(sentences(told.viewer)) == 2
    fill(told.owner, project, Filters())
    tell_of_disputes()
    assert len(sentences(told.viewer)) == 2  # nothing is disputed


def test_mentions_and_shares_are_told(world: World, settings: Any) -> None:
    from types import SimpleNamespace

    class Mentions:
        def filter(self, **_: Any) -> Any:
            return self

        def exists(self) -> bool:
            return False

    publication = SimpleNamespace(pk=3, name="Norm", version=2, team=world.team, author=world.owner)
    comment = SimpleNamespace(pk=7, mentions=Mentions())
    facts = {"by": world.teammate, "publication": publication, "place": "/library/3/"}
    sharing.mentioned.send(sender=None, person=world.viewer, comment=comment, **facts)
    sharing.commented.send(sender=None, comment=comment, **facts)
    sharing.shared.send(sender=None, link=SimpleNamespace(pk=5), **facts)
    assert sentences(world.viewer)[0].startswith("Teammate mentioned you")
    assert [s.split(" ")[1] for s in sentences(world.owner)] == ["commented", "made"]


class _Listener(BaseHTTPRequestHandler):
    status = 200
    heard: list[tuple[dict[str, str], bytes]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).heard.append(({k.lower(): v for k, v in self.headers.items()}, body))
        self.send_response(type(self).status)
        self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def listening(status: int = 200) -> Iterator[tuple[str, type[_Listener]]]:
    """A real server on this machine, which answers everything with one status."""
    handler = type("Listener", (_Listener,), {"status": status, "heard": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", handler
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def allowed(settings: Any) -> None:
    settings.WEBHOOK_SERVERS = ("127.0.0.1",)


def test_a_hook_gets_signed_messages(allowed: None, world: World) -> None:
    with listening() as (url, listener):
        _, secret = hooks.add_hook(world.owner, world.team, "chat", url, ["run.finished"])
        assert tell_hooks(kinds.RUN_FINISHED, world.team, "run 1", {"run": 1, "verdict": "verified ×"}) == 1
        assert tell_hooks(kinds.MENTION, world.team, "comment 1", {}) == 0
        assert tell_hooks(kinds.RUN_FINISHED, world.others, "run 2", {}) == 0
        row = Delivery.objects.get()
        sending.deliver(row.pk)
        sending.deliver(row.pk)  # a message of the queue that came twice
    [(headers, body)] = listener.heard
    assert secret not in str(Hook.objects.get().__dict__)
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert json.loads(body)["data"] == {"team": "kernel-crew", "run": 1, "verdict": "verified ×"}
    row.refresh_from_db()
    assert (row.state, row.answer, row.tries) == (DeliveryState.SENT, "200", 1)


@pytest.mark.parametrize("status", [500, 302, 404])
def test_what_is_not_taken_is_tried_again_with_growing_pauses_and_given_up(allowed: None, world: World, status: int) -> None:
    with listening(status) as (url, listener):
        hook, _ = hooks.add_hook(world.owner, world.team, "chat", url, ["run.finished"])
        tell_hooks(kinds.RUN_FINISHED, world.team, "run 1", {})
        row = Delivery.objects.get()
        pauses = []
        while row.state == DeliveryState.WAITING:
            Delivery.objects.update(next_at=timezone.now())
            sending.deliver(row.pk)
            row.refresh_from_db()
            pauses.append(round((row.next_at - timezone.now()).total_seconds()))
    assert len(listener.heard) == 1 + len(sending.PAUSES_S)
    assert len({headers["webhook-id"] for headers, _ in listener.heard}) == 1
    assert all(abs(pause - wanted) <= 1 for pause, wanted in zip(pauses, sending.PAUSES_S, strict=False))
    assert row.state == DeliveryState.GIVEN_UP
    assert str(status) in row.answer
    hook.refresh_from_db()
    assert hook.failures == 1


def test_a_server_that_is_gone_for_good_is_not_asked_again(allowed: None, world: World) -> None:
    with listening(410) as (url, _):
        hooks.add_hook(world.owner, world.team, "chat", url, ["run.finished"])
        tell_hooks(kinds.RUN_FINISHED, world.team, "run 1", {})
        sending.deliver(Delivery.objects.get().pk)
    assert Delivery.objects.get().state == DeliveryState.GIVEN_UP


def test_a_hook_that_never_answers_is_stopped_and_works_again_when_saved(allowed: None, world: World, owner: Client) -> None:
    hook, _ = hooks.add_hook(world.owner, world.team, "chat", "http://127.0.0.1:9/hook", ["run.finished"])
    Hook.objects.update(failures=19)
    row = Delivery.objects.create(hook=hook, kind="run.finished", body="{}", tries=len(sending.PAUSES_S))
    sending.deliver(row.pk)
    hook.refresh_from_db()
    assert "20 messages in a row" in hook.stopped
    assert tell_hooks(kinds.RUN_FINISHED, world.team, "run 2", {}) == 0
    place = f"/settings/hooks/{world.team.slug}/{hook.pk}/"
    assert "20 messages in a row" in owner.get(place).content.decode()
    owner.post(place, {"name": "chat", "url": hook.url, "kind": ["run.finished"]})
    assert tell_hooks(kinds.RUN_FINISHED, world.team, "run 2", {}) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/x", "http://localhost:8000/", "http://169.254.169.254/latest", "http://[::1]/", "http://10.0.0.8/",
        "http://[::ffff:10.0.0.8]/", "ftp://example.org/", "https://user:secret@example.org/", "https://", "nothing",
        "http://exa mple.org/", "https://example.org:99999/", "https://no-such-name.invalid/",
    ],
)  # fmt: skip
def test_inner_addresses_and_what_is_no_address_are_refused(owner: Client, world: World, url: str) -> None:
    page = owner.post(f"/settings/hooks/{world.team.slug}/", {"name": "x", "url": url, "kind": ["run.finished"]})
    assert page.status_code == 422
    assert not Hook.objects.exists()


def test_nobody_waits_for_the_name_service_with_a_lock(
    allowed: None, world: World, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    depths, outside = [], len(connection.savepoint_ids)
    checked = hooks.checked
    monkeypatch.setattr(hooks, "checked", lambda url: depths.append(len(connection.savepoint_ids)) or checked(url))
    said = {"name": "chat", "url": "http://127.0.0.1:9/", "kind": ["run.finished"]}
    owner.post(f"/settings/hooks/{world.team.slug}/", said)
    owner.post(f"/settings/hooks/{world.team.slug}/{Hook.objects.get().pk}/", said)
    assert depths == [outside, outside]


def test_an_address_that_leads_inside_later_is_not_asked(allowed: None, world: World, settings: Any) -> None:
    with listening() as (url, listener):
        hooks.add_hook(world.owner, world.team, "chat", url, ["run.finished"])
        settings.WEBHOOK_SERVERS = ()
        tell_hooks(kinds.RUN_FINISHED, world.team, "run 1", {})
        sending.deliver(Delivery.objects.get().pk)
    assert listener.heard == []
    assert "no public address" in Delivery.objects.get().answer


def test_hooks_are_the_managers_alone(world: World, allowed: None, owner: Client) -> None:
    place = f"/settings/hooks/{world.team.slug}/"
    page = owner.post(place, {"name": "chat", "url": "http://127.0.0.1:9/", "kind": ["run.finished"]}).content.decode()
    assert re.search(r'id="secret">whsec_[\w+/=]{44}<', page)
    assert "whsec_" not in owner.get(place).content.decode()
    hook = Hook.objects.get()
    for person, status in ((world.teammate, 403), (world.viewer, 403), (world.outsider, 404)):
        other = Client()
        other.force_login(person)
        for path in ("", f"{hook.pk}/"):
            assert other.get(place + path).status_code == status
        for path in (f"{hook.pk}/remove", f"{hook.pk}/test"):
            assert other.post(place + path).status_code == status
    assert owner.post(f"{place}{hook.pk}/test").status_code == 302
    row = Delivery.objects.get()
    assert json.loads(row.body)["type"] == "test"
    assert owner.post(f"{place}{hook.pk}/deliveries/{row.pk}/again").status_code == 302
    assert Delivery.objects.count() == 2
    assert owner.post(f"{place}{hook.pk}/remove").status_code == 302
    assert not Delivery.objects.exists()


def test_the_sweep_hands_over_what_nobody_tried(world: World, allowed: None, conveyor: Conveyor) -> None:
    hooks.add_hook(world.owner, world.team, "chat", "http://127.0.0.1:9/", ["run.finished"])
    tell_hooks(kinds.RUN_FINISHED, world.team, "run 1", {})
    row = Delivery.objects.get()
    sending.send_due()
    assert conveyor.sent(DELIVER) == [{"delivery_id": row.pk}]
    Delivery.objects.update(next_at=timezone.now() + timedelta(minutes=1))
    sending.send_due()
    assert len(conveyor.sent(DELIVER)) == 1


def test_who_leaves_is_named_no_more(world: World) -> None:
    tell(kinds.MENTION, [world.owner], "Teammate mentioned you in a comment.", "/", "comment 1", world.team)
    delete_account(world.teammate)
    assert sentences(world.owner) == ["Somebody mentioned you in a comment."]


def test_choices_hold_for_what_comes_next(world: World) -> None:
    choose(world.owner, {("run.finished", "page")})
    choose(world.owner, set())
    assert tell(kinds.RUN_FINISHED, [world.owner], "Ended.", "/", "run 1", world.team) == 0
