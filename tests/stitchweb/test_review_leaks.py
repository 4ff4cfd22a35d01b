"""Nothing that a reviewer can open tells, before they submit, what the page of an item hides: every address, every answer.

Two ways to find a leak: markers in all that is hidden, and a second telling with other verdicts, classes and levels of peers,
after which every answer has to be the same, letter by letter.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from gpu_runner.contracts import HackClass
from stitchweb.programs.services import Upload, create_program
from stitchweb.review.access import blind_to
from stitchweb.review.models import Adjudication, Assignment, Hunch, Item, Probe, Rating, Review, Rubric, Typed
from stitchweb.review.services.labels import set_adjudicators
from stitchweb.review.services.projects import Filters, create_project, fill, set_reviewers
from stitchweb.runs import consumers
from stitchweb.runs.models import Event, Run
from stitchweb.teams.models import Role, User
from stitchweb.teams.services import create_user, set_role
from tests.stitchweb.parts_for_tests import REFERENCE
from tests.stitchweb.test_review_pages import FORM, text_of, told_as
from tests.stitchweb.test_stream import socket
from tests.stitchweb.world_for_tests import make_world

pytestmark = pytest.mark.django_db

MARKERS = ["Quentin", "quentin@example.org", "gigacoder", "ZEBRA"]
# One needs a secret, one ends the visit; what a person takes along is a zip, whose rows have a test of their own; a team's page
# names all its people, whatever they did; and one counts every request.
SKIPPED = {"login-link", "account_logout", "account-export", "team", "metrics"}
CLASSES = (str(HackClass.OUTPUT_CACHE), str(HackClass.TIMER_PATCH))


@dataclasses.dataclass
class Secret:
    """rita scores `run`'s candidates, none of them yet. raj has scored some, sam settled one. Quentin owns the run."""

    rita: User
    raj: User
    owner: User
    run: Run
    project: Any
    program: int


@pytest.fixture
def secret(db: None) -> Secret:
    return make_secret()


def make_secret() -> Secret:
    world = make_world()
    people = [create_user(f"{n}@example.org", name=n.title()) for n in ("rita", "raj", "sam")]
    for person in people:
        set_role(world.team, person, Role.REVIEWER)
    rita, raj, sam = people
    quentin = create_user("quentin@example.org", name="Quentin Author")
    set_role(world.team, quentin, Role.MEMBER)
    revision = create_program(quentin, world.team, Upload(REFERENCE + "\n# queued\n", "queued_norm.py"))
    run = told_as(
        dataclasses.replace(world, revision=revision), verdict=f"hack:{CLASSES[0]}", says="ZEBRA it remembers.",
        hack=CLASSES[0], labels=["full-precision"], engineer="llm:acme/gigacoder-9", owner=quentin,
    )  # fmt: skip
    project = create_project(world.owner, world.team, Rubric.objects.get(key="kernels", version=1), "Queued norms")
    set_reviewers(world.owner, project, [rita.pk, raj.pk])
    set_adjudicators(world.owner, project, [sam.pk])
    fill(world.owner, project, Filters(program=revision.program_id, verdict="hack"))
    client = signed_in(raj)
    for _ in range(2):
        item = client.post(f"/review/projects/{project.pk}/next").url
        client.post(item, {**FORM, "comment": "ZEBRA of a peer", "act": "submit"})
        client.post(f"{item}remark", {"text": "ZEBRA said afterwards"})
        row = Assignment.objects.get(pk=int(item.split("/")[3]))
        hunch = Hunch.objects.create(assignment=row, number=1, note="ZEBRA tried", attached="anti_hacking")
        Typed.objects.create(item=row.item, user=raj, act="revise", content={"reason": "ZEBRA of a revision"})
    Probe.objects.create(
        project=project, hunch=hunch, number=1, reference_sha256=revision.sha256, text=REFERENCE.replace("1024", "512")
    )
    row = Review.objects.filter(user=raj).latest("pk")
    Adjudication.objects.create(item=row.item, user=sam, rubric=project.rubric, levels={}, hack_level="major", reason="ZEBRA")
    return Secret(rita, raj, world.owner, run, project, revision.program_id)


def signed_in(user: User) -> Client:
    client = Client(raise_request_exception=True, REMOTE_ADDR="203.0.113.7")  # the machine's own measures are not for them
    client.force_login(user)
    return client


def patterns(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for entry in resolver.url_patterns:
        route = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from patterns(entry, route)
        else:
            yield route, entry


def choices(route: str, name: str, secret: Secret) -> list[Any]:
    """What may stand for a part of an address. KeyError for a part that this test does not know: then it learns it."""
    mine = list(Assignment.objects.values_list("pk", flat=True))
    rows = {"runs/": [r.pk for r in Run.objects.all()], "programs/": [secret.program], "suites/": [1], "profiles/": [1],
            "datasets/runs/": [r.pk for r in Run.objects.all()], "review/projects/": [secret.project.pk],
            "review/items/": mine, "jobs/": [1],
            "review/hunches/": list(Hunch.objects.values_list("pk", flat=True))}  # fmt: skip
    if name == "pk":
        return next((values for start, values in rows.items() if route.startswith(start)), [1])
    return {
        "item_pk": list(Item.objects.values_list("pk", flat=True)), "cid": ["c1", "c5"], "version": [1], "number": [1, 2],
        "key": ["kernels"], "path": ["model_new.py", "kernels/ln_gelu.cpp"], "name": ["report.json"], "kind": [CLASSES[0]],
        "slug": ["kernel-team"], "ident": ["hosted"], "seq": [1, 2], "token": ["x"], "job": ["1"],
        "sha256": ["0" * 64], "klass": [CLASSES[0]], "uidb36": ["1"], "target": ["cpu"], "delivery": [1],
        "comment_pk": [1], "link_pk": [1], "publication_pk": [1],
    }[name]  # fmt: skip


def addresses(secret: Secret) -> Iterator[str]:
    """Every address of the site that a reviewer could try, with all runs, items and files in them."""
    for route, pattern in patterns(get_resolver()):
        if pattern.name in SKIPPED:
            continue
        names = re.findall(r"<(?:\w+:)?(\w+)>", route)
        for values in product(*(choices(route, n, secret) for n in names)):
            path = route
            for name, value in zip(names, values, strict=True):
                path = re.sub(rf"<(?:\w+:)?{name}>", str(value), path)
            yield f"/{path}"


class Undo(Exception):
    pass


def visit(client: Client, path: str, method: str, **headers: str) -> str:
    """Status, where it leads, and text of one answer. What a POST changes is undone."""
    try:
        with transaction.atomic():
            answer = (
                client.post(path, {"act": "save"}, headers=headers) if method == "post" else client.get(path, headers=headers)
            )
            place = answer.get("Location", answer.get("Content-Location", ""))
            text = f"{answer.status_code} {place} {text_of(answer) if not answer.streaming else ''}"
            raise Undo
    except Undo:
        return re.sub(
            r'(csrfmiddlewaretoken" value="|X-CSRFToken": "|data-now="|name="once" value=")[^"]*|\d+ \w+ ago', r"\1", text
        )


def crawl(secret: Secret) -> dict[str, str]:
    client = signed_in(secret.rita)
    held = client.post(f"/review/projects/{secret.project.pk}/next").url
    told = {f"{method} {path}": visit(client, path, method) for path in addresses(secret) for method in ("get", "post")}
    told["next in place"] = visit(client, f"/review/projects/{secret.project.pk}/next", "post", **{"HX-Request": "true"})
    assert "Your scores" in told["next in place"]
    for view in ("nothing", "parent", "reference"):
        told[f"code {view}"] = visit(client, f"{held}code?against={view}", "get")
    for query in ("?q=queued", "?verdict=verified", "?status=finished"):
        told[f"runs {query}"], told[f"library {query}"] = (
            visit(client, f"/runs/{query}", "get"),
            visit(client, f"/{query}", "get"),
        )
    return told


def retell(secret: Secret) -> None:
    """Other verdicts, classes and levels of peers, where they were; nothing that a reviewer may see changes."""
    for event in Event.objects.filter(run=secret.run, kind="candidate.changed"):
        payload = dict(event.payload)
        if payload.get("verdict"):
            payload["verdict"] = "verified"
            if payload.get("check"):
                payload["check"] = payload["check"] | {"hack": None, "suspects": [CLASSES[1]]}
            Event.objects.filter(pk=event.pk).update(payload=payload)
    Run.objects.filter(pk=secret.run.pk).update(verdict="incorrect", speedup=7.77, sentence="Another one.")
    Rating.objects.filter(review__user=secret.raj).update(level=1)
    Review.objects.filter(user=secret.raj).update(hack_level="major", hack_types=[CLASSES[1]])
    Adjudication.objects.update(hack_level="none")


def test_no_answer_at_any_address_holds_what_is_hidden(secret: Secret) -> None:
    told = crawl(secret)
    assert len(told) > 150
    assert sum(text.startswith("200") for text in told.values()) > 12
    leaks = {(path, marker) for path, text in told.items() for marker in MARKERS if marker.lower() in text.lower()}
    # Who is in a team is no secret there; who wrote a candidate is.
    assert {(p, m) for p, m in leaks if not (p == "get /teams/kernel-team/" and m in MARKERS[:2])} == set()


def test_no_answer_changes_when_verdicts_classes_and_peers_scores_do(secret: Secret) -> None:
    before = crawl(secret)
    retell(secret)
    after = crawl(secret)
    assert [path for path in before if before[path] != after[path]] == []


def test_the_crawl_sees_all_of_it_once_the_items_are_scored(secret: Secret) -> None:
    """So the two tests above look where there is something to find."""
    client = signed_in(secret.rita)
    while (place := client.post(f"/review/projects/{secret.project.pk}/next").url) != "/review/":
        assert client.post(place, {**FORM, "act": "submit"}).status_code == 302
    assert not blind_to(secret.rita).exists()
    told = {path: visit(client, path, "get") for path in addresses(secret)}
    whole = "".join(told.values())
    for marker in MARKERS[:1] + MARKERS[2:]:
        assert marker in whole, marker
    assert told[f"/runs/{secret.run.pk}/"].startswith("200")
    assert told[f"/programs/{secret.program}/"].startswith("200")


def test_a_closed_page_says_why_and_when_it_opens(secret: Secret) -> None:
    client = signed_in(secret.rita)
    for path in (f"/runs/{secret.run.pk}/", f"/programs/{secret.program}/"):
        answer = client.get(path)
        assert answer.status_code == 403
        page = text_of(answer)
        assert "Closed for now" in page
        assert "“Queued norms”" in page
        assert "It opens when you have scored or skipped them" in page
    assert "queued_norm" not in text_of(client.get("/"))
    assert signed_in(secret.owner).get(f"/runs/{secret.run.pk}/").status_code == 200


@pytest.mark.parametrize("end", ["close", "leave", "skip"])
def test_what_ends_the_blindness_opens_the_pages(secret: Secret, end: str) -> None:
    client = signed_in(secret.rita)
    path = f"/runs/{secret.run.pk}/"
    assert client.get(path).status_code == 403
    if end == "close":
        type(secret.project).objects.update(state="closed")
    elif end == "leave":
        set_reviewers(secret.owner, secret.project, [secret.raj.pk])
    else:
        while (place := client.post(f"/review/projects/{secret.project.pk}/next").url) != "/review/":
            client.post(place, {"act": "skip", "reason": "too-long"})
    assert client.get(path).status_code == 200


def test_a_manager_who_scores_gets_no_labels_before(secret: Secret) -> None:
    set_role(secret.project.team, secret.rita, Role.MAINTAINER)
    client = signed_in(secret.rita)
    for path in ("labels.jsonl", "agreement/"):
        answer = client.get(f"/review/projects/{secret.project.pk}/{path}")
        assert answer.status_code == 403
        assert "You score in this project too" in text_of(answer)


@pytest.mark.django_db(transaction=True)
async def test_the_socket_of_a_closed_run_says_nothing(db: None) -> None:
    secret = await database_sync_to_async(make_secret)()
    communicator = await database_sync_to_async(socket)(secret.run, secret.rita)
    connected, _ = await communicator.connect()
    assert connected  # so that the closing code can say why
    assert await communicator.receive_output() == {"type": "websocket.close", "code": consumers.NOT_FOUND}
    assert await communicator.receive_nothing()
