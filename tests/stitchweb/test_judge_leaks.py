"""A judge's scores reach nobody who may still label: not by a page, the API, an event, a file or a piece of news."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.core.mail import EmailMessage

from stitchweb.datasets.models import Judge, Shown
from stitchweb.notify.models import Delivery, Notification
from stitchweb.review.blind import subject_of
from stitchweb.review.export import label_lines
from stitchweb.review.models import Item, Review
from stitchweb.review.services.ordering import order_queue
from stitchweb.runs.history import view_of
from stitchweb.runs.models import Event
from stitchweb.runs.rail import decision_of
from stitchweb.runs.signals import tell_ended
from stitchweb.teams.export import export
from tests.stitchweb.api_world import caller
from tests.stitchweb.judged_world import active_judge, said, score_all
from tests.stitchweb.test_review_leaks import Secret, addresses, crawl, make_secret, signed_in, visit
from tests.stitchweb.test_review_pages import FORM, text_of
from tests.stitchweb.test_stream import socket

pytestmark = pytest.mark.django_db
WORDS = "OKAPI because it fuses"
TIE = "c1 and c2 are not distinguishable in speed. The KUDU judge rates c2 highest."


def judged(level: int = 2) -> tuple[Secret, Judge]:
    """The team has a judge that may score, and has scored all of the run that rita is to label blind."""
    secret = make_secret()
    judge = active_judge(secret.project.team)
    score_all(judge, secret.run, said(level, hack=0.7, why=WORDS))
    for event in Event.objects.filter(run=secret.run, kind="decision.made"):
        Event.objects.filter(pk=event.pk).update(payload=event.payload | {"tie": TIE})
    order_queue(secret.project)
    return secret, judge


def everything(secret: Secret) -> dict[str, str]:
    """What rita gets at every address, and at those of the judge with each candidate named."""
    told = crawl(secret)
    client = signed_in(secret.rita)
    for cid in ("c1", "c2", "c5"):
        path = f"/datasets/runs/{secret.run.pk}/?candidate={cid}"
        told[path] = visit(client, path, "get")
        told[f"panel {path}"] = visit(client, path, "get", **{"HX-Request": "true"})
    pair = f"/published/compare/?a=r{secret.run.pk}-c1&b=r{secret.run.pk}-c2"
    told[pair] = visit(client, pair, "get")
    return told


def test_no_answer_at_any_address_holds_a_score_or_changes_when_the_scores_do(db: None) -> None:
    secret, judge = judged()
    before = everything(secret)
    assert [path for path, text in before.items() if "okapi" in text.lower() or "kudu" in text.lower()] == []
    own = [text for path, text in before.items() if path.startswith(f"/datasets/runs/{secret.run.pk}/")]
    assert own
    assert not any(text.startswith("200") for text in own)
    assert not Shown.objects.exists()
    score_all(judge, secret.run, said(5, sure=0.97, hack=0.01, why="another word"))
    after = everything(secret)
    assert [path for path in before if before[path] != after[path]] == []


def test_an_items_place_and_the_words_on_it_are_the_same_whatever_is_scored_high_or_low(db: None) -> None:
    """Only how unsure a judge is, and that it lies apart, may move an item: swapping good for bad moves none."""
    secret, judge = judged()
    Review.objects.filter(item__project=secret.project).update(superseded=True)  # no label for the judge to lie apart from
    placed = []
    for level in (1, 5):
        score_all(judge, secret.run, said(level, why=WORDS))
        order_queue(secret.project)
        placed.append(sorted(Item.objects.filter(project=secret.project).values_list("pk", "rank", "placed", "why")))
    assert placed[0] == placed[1]
    assert any(row[2] for row in placed[0])


def test_what_a_candidate_was_asked_for_leaves_the_words_on_a_tie_out(db: None) -> None:
    """They stand in the decision on its parent, of which a reviewer reads all else."""
    secret, _ = judged()
    view = view_of(secret.run.pk)
    told = [c for c in view.candidates.values() if c.skill == "feedback" and decision_of(view, c.parent or "")]
    assert told
    for candidate in told:
        item = Item(project=secret.project, run=secret.run, candidate=candidate.id)
        subject = subject_of(item, lambda anchor, **wishes: "")
        assert subject is not None
        assert subject.request is not None
        assert subject.request.points
        assert "KUDU" not in repr(subject)


def test_the_api_tells_none(db: None) -> None:
    secret, _ = judged()
    api = caller(secret.rita)
    for path in (
        f"runs/{secret.run.pk}",
        f"runs/{secret.run.pk}/events",
        f"runs/{secret.run.pk}/candidates/c1",
        "runs",
        "review",
    ):
        answer = api.raw("GET", path)
        assert "OKAPI" not in answer.content.decode(), path
    assert api.get(f"runs/{secret.run.pk}/events")[0] in (403, 404)


def test_no_event_file_or_news_holds_one(db: None, mailoutbox: list[EmailMessage], conveyor: Any) -> None:
    secret, _ = judged()
    tell_ended(secret.run)
    told = [json.dumps(row.payload) for row in Event.objects.all()]
    told += list(label_lines(secret.project))
    told += [str(vars(row)) for model in (Notification, Delivery) for row in model.objects.all()]
    told += [mail.body for mail in mailoutbox]
    for person in (secret.rita, secret.owner):
        with zipfile.ZipFile(io.BytesIO(export(person))) as bundle:
            told += [bundle.read(name).decode() for name in bundle.namelist()]
    assert not [text for text in told if "OKAPI" in text]


def test_the_crawl_would_see_them_once_the_items_are_labelled(db: None) -> None:
    """So the tests above look where there is something to find."""
    secret, _ = judged()
    client = signed_in(secret.rita)
    while (place := client.post(f"/review/projects/{secret.project.pk}/next").url) != "/review/":
        page = text_of(client.get(place))
        assert "OKAPI" not in page
        assert "Why it is here" in page
        assert client.post(place, {**FORM, "act": "submit"}).status_code == 302
        assert "OKAPI" in text_of(client.get(place))
    assert WORDS in visit(client, f"/datasets/runs/{secret.run.pk}/", "get")
    assert TIE in visit(client, f"/runs/{secret.run.pk}/", "get")
    assert f"/datasets/runs/{secret.run.pk}/" in set(addresses(secret))
    assert not Shown.objects.filter(user=secret.rita).exists()  # her labels were there first


def test_a_label_is_not_blind_where_its_person_had_read_the_scores(db: None) -> None:
    secret, _ = judged()
    for row in Item.objects.filter(project=secret.project):
        Shown.objects.create(user=secret.rita, sha256=row.sha256)
    client = signed_in(secret.rita)
    place = client.post(f"/review/projects/{secret.project.pk}/next").url
    client.post(place, {**FORM, "act": "submit"})
    assert not Review.objects.get(user=secret.rita).blind


def test_whoever_may_label_later_and_reads_them_is_noted_and_others_are_not(db: None) -> None:
    secret, _ = judged()
    path = f"/datasets/runs/{secret.run.pk}/?candidate=c1"
    page = signed_in(secret.owner).get(path)
    assert WORDS in text_of(page)
    assert list(Shown.objects.values_list("user", flat=True)) == [secret.owner.pk]
    signed_in(secret.owner).get(path)
    assert Shown.objects.count() == 1


@pytest.mark.django_db(transaction=True)
async def test_the_socket_of_a_watched_run_says_none(db: None) -> None:
    secret, _ = await database_sync_to_async(judged)()
    communicator = await database_sync_to_async(socket)(secret.run, secret.owner)
    connected, _ = await communicator.connect()
    assert connected
    assert await communicator.receive_nothing(timeout=0.3) or "OKAPI" not in str(await communicator.receive_output())
    await communicator.disconnect()
