"""The permission table holds: every address, socket and method, tried by everybody, is open where it says so and nowhere else.

A new address fails here until it has a row (`APP/permissions.py`) and a visit (`tests/stitchweb/matrix/APP.py`).
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from http.cookies import SimpleCookie
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from channels.testing import WebsocketCommunicator
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import resolve, reverse

from stitchweb.asgi import application
from stitchweb.celery import app as celery
from stitchweb.core.permissions import OPERATORS, SIGNED_IN, Action, Who, how_to_add, table
from stitchweb.core.permissions_page import page
from stitchweb.core.routes import addresses, without_row
from stitchweb.runs.routing import websocket_urlpatterns
from stitchweb.teams.models import Role
from tests.stitchweb import matrix
from tests.stitchweb.matrix import Visit, Visits
from tests.stitchweb.matrix.stage import SECRETS, Stage

# What the policy of pages would refuse: a script or a style that does not come from a file, data blocks aside.
INLINE = re.compile(
    r"<script(?![^>]*\ssrc=)(?![^>]*type=\"application/json\")[^>]*>|<style|<[^>]+\s(?:style|on[a-z]+)=\"[^>]*>"
)
STRANGERS = {Who.ANONYMOUS, Who.OUTSIDER, Who.OPERATOR, Who.DEAD_LINK}


def _parts() -> Iterator[Any]:
    for module in pkgutil.iter_modules(matrix.__path__):
        part = importlib.import_module(f"tests.stitchweb.matrix.{module.name}")
        if hasattr(part, "visits"):
            yield part


def all_visits(stage: Stage) -> dict[str, tuple[Visit, ...]]:
    found: dict[str, tuple[Visit, ...]] = {}
    for part in _parts():
        told: Visits = part.visits(stage)
        found |= {name: one if isinstance(one, tuple) else (one,) for name, one in told.items()}
    return found


class Doors:
    """Browsers of everybody. Each visit gets its own, so that signing out somewhere changes nobody else."""

    def __init__(self, stage: Stage) -> None:
        self.cookies: dict[Who, SimpleCookie] = {}
        for who, person in stage.people.items():
            client = Client()
            client.force_login(person)
            self.cookies[who] = client.cookies

    def client(self, who: Who) -> Client:
        client = Client(raise_request_exception=False)
        client.cookies = SimpleCookie({key: one.value for key, one in self.cookies.get(who, SimpleCookie()).items()})
        return client


class Undo(Exception):
    pass


def attempt(client: Client, method: str, path: str, visit: Visit, who: Who) -> tuple[Any, list[str]]:
    """The answer, and what it wrote. All of it is undone."""
    headers = dict(visit.headers(who))
    more: dict[str, Any] = {"headers": headers}
    if method != "GET":
        more["data"] = json.dumps(dict(visit.data)) if visit.json else dict(visit.data)
        if visit.json:
            more["content_type"] = "application/json"
    elif visit.query:
        path = f"{path}?{visit.query}"
    connection.queries_log.clear()  # it holds some thousands only, and beyond them a capture would be of nothing
    with CaptureQueriesContext(connection) as queries:
        try:
            with transaction.atomic():
                answer = getattr(client, method.lower())(path, **more)
                raise Undo
        except Undo:
            pass
    wrote = [q["sql"] for q in queries if q["sql"].split(" ")[0] in ("INSERT", "UPDATE", "DELETE")]
    return answer, [sql for sql in wrote if "django_session" not in sql.split("WHERE")[0]]


def is_open(answer: Any, visit: Visit) -> bool:
    """Not refused: neither hidden, forbidden nor sent to sign in."""
    if answer.status_code in {401, 403, 404, 405, *visit.refused} - set(visit.opens):
        return False
    return not (answer.status_code == 302 and answer["Location"].startswith(f"{reverse('account_login')}?next="))


def tries(visit: Visit, who: Who) -> tuple[dict[str, Any], ...]:
    """The arguments of the address, once for each link of that kind."""
    return tuple(dict(visit.args) | dict(more) for more in visit.links.get(who, ({},)))


def expected(action: Action, visit: Visit, who: Who) -> bool | None:
    """Open, refused, or None where only the condition decides, which this visit does not tell."""
    if who not in action.who:
        return False
    if action.when and visit.meets is not None and who not in visit.meets:
        return None
    return True


def faults(stage: Stage, doors: Doors, name: str, visit: Visit) -> Iterator[str]:
    """Where an address is not as the table has it."""
    for method, action in table().routes[name].methods.items():
        if visit.method not in ("", method):
            continue
        does = visit.action or action
        for who in Who:
            if who in (Who.LINK, Who.DEAD_LINK) and who not in visit.links:
                continue  # this address knows no links: whoever has one comes as anonymous
            for args in tries(visit, who):
                answer, wrote = attempt(doors.client(who), method, reverse(name, kwargs=args), visit, who)
                cell = f"{method} {reverse(name, kwargs=args)} ({name}, {does.name}) as {who}"
                opened, wanted = is_open(answer, visit), expected(does, visit, who)
                if answer.status_code >= 500 and not (visit.away and answer.status_code == 503):
                    yield f"{cell}: answers {answer.status_code}"
                elif wanted is False and opened:
                    yield f"LEAK {cell}: answers {answer.status_code}, should be refused"
                elif wanted and not opened and not (who is Who.LINK and answer.status_code in visit.refused):
                    yield f"{cell}: answers {answer.status_code}, should be open"
                if not opened and wrote and not visit.writes:
                    yield f"LEAK {cell}: was refused and wrote: {wrote[0][:200]}"
                if answer.streaming:
                    continue
                text = answer.content.decode(errors="replace")
                # An operator's own pages name the teams of the site, and nothing that is theirs.
                if who in STRANGERS and not (who is Who.OPERATOR and opened and does.who == OPERATORS):
                    yield from (f"LEAK {cell}: tells {secret}" for secret in SECRETS if secret in text)
                if answer.get("Content-Type", "").startswith("text/html"):
                    yield from (f"{cell}: inline {found[0]}" for found in INLINE.finditer(text))


@pytest.fixture
def stage(db: None) -> Stage:
    return Stage()


def test_every_address_has_a_row() -> None:
    assert "\n".join(map(how_to_add, without_row(name for name, _ in addresses()))) == ""


def test_every_address_has_a_visit(stage: Stage) -> None:
    lacking = sorted({name for name, _ in addresses()} - set(all_visits(stage)))
    assert lacking == [], f"Add to visits() in tests/stitchweb/matrix/APP.py a Visit for each of: {', '.join(lacking)}"


def test_only_the_cells_of_the_table_are_open(stage: Stage) -> None:
    doors, visits = Doors(stage), all_visits(stage)
    known = sorted(set(visits) & set(table().routes))
    found = [fault for name in known for visit in visits[name] for fault in faults(stage, doors, name, visit)]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def test_a_route_without_a_row_is_named_and_not_served(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    routes = dict(table().routes)
    del routes["library"]
    monkeypatch.setattr("stitchweb.core.gate.table", lambda: type("Table", (), {"routes": routes})())
    monkeypatch.setattr("stitchweb.core.routes.table", lambda: type("Table", (), {"routes": routes})())
    assert without_row(name for name, _ in addresses()) == ["library"]
    assert "Add it to ROUTES in the permissions.py" in how_to_add("library")
    assert Doors(stage).client(Who.OWNER).get("/").status_code == 500


def test_a_method_that_the_row_does_not_name_is_refused_before_any_view(stage: Stage) -> None:
    client, visits = Doors(stage).client(Who.OWNER), all_visits(stage)
    places = {name: reverse(name, kwargs=dict(visits[name][0].args)) for name in table().routes if name in visits}
    # Two rows may be of one place, whose first is the one that answers.
    places = {
        name: place for name, place in places.items() if resolve(place).view_name == name and not table().routes[name].delete
    }
    answers = {name: client.delete(place).status_code for name, place in places.items()}
    assert len(answers) > 100
    assert {name: status for name, status in answers.items() if status != 405} == {}


def test_every_socket_and_task_has_a_row() -> None:
    patterns = {str(entry.pattern) for entry in websocket_urlpatterns} - {""}
    assert patterns - set(table().sockets) == set(), "Add it to SOCKETS in the permissions.py of its app."
    for module in celery.conf.imports:
        importlib.import_module(module)
    ours = {name for name in celery.tasks if not name.startswith("celery.")}
    assert ours - set(table().tasks) == set(), "Add it to TASKS in the permissions.py of its app: who sends it."


@pytest.mark.django_db(transaction=True)
def test_only_the_cells_of_the_table_may_listen() -> None:
    stage = Stage()
    doors = Doors(stage)
    found = {}
    wanted = {}
    for part in _parts():
        for pattern, path in (part.sockets(stage) if hasattr(part, "sockets") else {}).items():
            for who in SIGNED_IN | {Who.ANONYMOUS}:
                found[pattern, who] = async_to_sync(_listens)(path, doors.cookies.get(who))
                wanted[pattern, who] = who in table().sockets[pattern].who
    assert {pattern for pattern, _ in found} == set(table().sockets)
    assert found == wanted


async def _listens(path: str, cookies: SimpleCookie | None) -> bool:
    """Whether the socket sends something before it closes."""
    cookie = "; ".join(f"{key}={one.value}" for key, one in (cookies or {}).items())
    headers = [(b"origin", b"http://localhost"), (b"host", b"localhost"), (b"cookie", cookie.encode())]
    communicator = WebsocketCommunicator(application, path, headers=headers)
    connected, _ = await communicator.connect(timeout=5)
    try:
        return connected and (await communicator.receive_output(5))["type"] == "websocket.send"
    finally:
        await communicator.disconnect()


def test_the_tables_roles_are_those_of_a_team() -> None:
    assert {str(role) for role in Role} == {str(who) for who in Who} - {
        "anonymous", "outsider", "operator", "link", "dead link", "runner"
    }  # fmt: skip


def test_the_page_shows_every_action_and_address() -> None:
    text = page()
    assert all(f"| `{name}` |" in text for name in table().actions)
    assert {name for name, _ in addresses()} == {name for name in table().routes if f"| `{name}` |" in text}
