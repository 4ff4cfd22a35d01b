"""Publishing: what may be, what is frozen, versions, forks, what is found by which words, comments."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction

from stitchweb.runs.models import Control, Run, RunState
from stitchweb.sharing.models import Comment, Origin, Publication
from stitchweb.sharing.services.collecting import CollectionRefused, create_collection, put_in
from stitchweb.sharing.services.forking import fork
from stitchweb.sharing.services.publishing import PublishRefused, Wish, publish, withdraw
from stitchweb.sharing.services.talk import CommentRefused, comment, delete_comment
from stitchweb.sharing.signals import mentioned, published
from stitchweb.teams.models import User
from stitchweb.teams.services import create_team
from tests.stitchweb.conveyor import Conveyor
from tests.stitchweb.sharing_world import Shown, make_shown, other_story, publish_told
from tests.stitchweb.world_for_tests import tell_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def shown() -> Shown:
    return make_shown()


def told(shown: Shown, **changes: Any) -> Run:
    return tell_run(shown.world.revision, shown.world.owner, *other_story("c5", **changes))


def test_only_a_verified_candidate_of_an_ended_run_is_published(shown: Shown) -> None:
    before = Publication.objects.count()
    for run, cid, why in (
        (shown.world.done, "c1", "is build-failed"), (shown.world.done, "c4", "is hack"),
        (shown.world.done, "c99", "no candidate c99"),
        (shown.world.live, "c3", "has not ended|not judged"), (shown.world.refused, "", "no candidate"),
        (told(shown, verdict="input-specialised"), "c5", "is input-specialised"),
    ):  # fmt: skip
        with pytest.raises(PublishRefused, match=why):
            publish(shown.world.owner, run.pk, cid, Wish(name="Not this"))
    assert Publication.objects.count() == before


def test_versions_are_numbered_and_the_newest_that_stands_is_known(shown: Shown) -> None:
    assert (shown.first.version, shown.second.version) == (1, 2)
    newest = Publication.objects.filter(newest=True)
    assert newest.get() == shown.second
    with pytest.raises(PublishRefused, match="LayerNorm \\+ GELU v2 already"):
        publish_told(shown.world.owner, shown.world.done, "c5", version_of=shown.second.pk)
    withdraw(shown.world.owner, shown.second.pk)
    assert newest.get() == shown.first
    third = publish_told(shown.world.owner, told(shown), "c5", version_of=shown.first.pk)
    assert third.version == 3
    assert newest.get() == third
    withdraw(shown.world.owner, third.pk)
    withdraw(shown.world.owner, shown.first.pk)
    assert not newest.exists()
    again = publish_told(shown.world.owner, told(shown), "c5", name="LayerNorm + GELU")
    assert again.version == 4
    with pytest.raises(IntegrityError), transaction.atomic():
        Publication.objects.filter(pk=third.pk).update(newest=True)


def test_what_is_published_stays_as_it_was_when_the_run_changes(shown: Shown) -> None:
    numbers = (shown.second.eager, shown.second.protocol, shown.second.device, shown.second.content.timing)
    assert shown.second.claimed
    shown.world.done.events.all().delete()
    row = Publication.objects.get(pk=shown.second.pk)
    assert (row.eager, row.protocol, row.device, row.content.timing) == numbers
    assert row.reference == shown.world.revision.sha256


@pytest.mark.parametrize(
    ("labels", "timing", "claimed"),
    [(["full-precision"], {}, True), (["reduced-precision"], {"speed": "not-claimed"}, False), (["no-own-kernels"], {}, True)],
)
def test_labels_go_with_it_and_decide_what_is_claimed(
    shown: Shown, labels: list[str], timing: dict[str, str], claimed: bool
) -> None:
    events, _ = other_story()
    last = [e for e in events if e.kind == "candidate.changed" and e.payload.get("id") == "c5"][-1].payload
    changed = {key: {**last[key], **timing} for key in ("timing", "confirmed") if last.get(key)}
    row = publish_told(shown.world.owner, told(shown, labels=labels, **changed), "c5", name="Labelled")
    assert set(labels) <= set(row.labels)
    assert row.claimed is claimed
    assert (row.over_eager is not None) is claimed
    assert row.own_kernels is ("no-own-kernels" not in labels)


def test_a_fork_tries_the_published_program_first_and_names_it_as_parent(shown: Shown, conveyor: Conveyor) -> None:
    run = fork(shown.ben, shown.second.pk)
    asked = Control.objects.get(run=run)
    assert asked.kind == "candidate"
    assert run.revision == shown.second.revision
    assert Origin.objects.get(run=run).publication == shown.second
    ended = told(shown)
    Origin.objects.create(run=ended, publication=shown.second)
    child = publish_told(shown.ben, ended, "c5", name="A fork of it")
    assert child.parent == shown.second
    assert list(shown.second.children.all()) == [child]


def test_a_fork_into_another_team_brings_the_reference_and_no_models(shown: Shown) -> None:
    own = create_team(shown.ben, "Ben's own")
    state = RunState.objects.get(run=shown.world.done)
    state.state["options"] |= {"coder": "llm", "models": {"coder": {"model": "house/scripted-1"}}}
    state.save()
    run = fork(shown.ben, shown.second.pk, own.slug)
    assert run.team == own
    assert run.revision.sha256 == shown.second.reference
    assert run.revision.program.team == own
    assert run.load().options.coder == "offline"
    assert not run.load().options.models


def test_a_mention_reaches_people_of_the_team_once_and_nobody_else(
    shown: Shown, django_capture_on_commit_callbacks: Any
) -> None:
    heard: list[tuple[User, str]] = []
    listen = lambda person, place, **facts: heard.append((person, place))  # noqa: E731
    mentioned.connect(listen)
    text = "@rita.r and @Rita, see @vera, @oscar, @nobody, mail@ada.example, @ben.ng: @ada"
    with django_capture_on_commit_callbacks(execute=True):
        row = comment(shown.ben, shown.second.pk, text)
    mentioned.disconnect(listen)
    people = {shown.rita, shown.world.viewer, shown.world.owner}
    assert {person for person, _ in heard} == people
    assert len(heard) == 3
    assert set(row.mentions.all()) == people | {shown.ben}
    assert {place for _, place in heard} == {f"/published/{shown.second.pk}/#comment-{row.pk}"}


def test_comments_are_bounded_and_deleted_by_their_author_or_a_maintainer(shown: Shown) -> None:
    for text, why in (("  ", "is empty"), ("x" * 8001, "8001 characters")):
        with pytest.raises(CommentRefused, match=why):
            comment(shown.ben, shown.second.pk, text)
    row = comment(shown.rita, shown.second.pk, "Mine")
    with pytest.raises(PermissionDenied, match="Somebody else wrote"):
        delete_comment(shown.ben, shown.second.pk, row.pk)
    delete_comment(shown.rita, shown.second.pk, row.pk)
    assert not Comment.objects.filter(pk=row.pk).exists()


def test_publishing_tells_after_the_commit(shown: Shown, django_capture_on_commit_callbacks: Any) -> None:
    heard: list[Publication] = []
    listen = lambda publication, **facts: heard.append(publication)  # noqa: E731
    published.connect(listen)
    with django_capture_on_commit_callbacks(execute=True):
        row = publish_told(shown.ben, told(shown), "c5", name="Told")
    published.disconnect(listen)
    assert heard == [row]


def test_a_collection_has_one_name_and_its_own_teams_publications(shown: Shown) -> None:
    with pytest.raises(CollectionRefused, match="has a collection named Feed-forward"):
        create_collection(shown.ben, shown.world.team.slug, " Feed-forward ")
    with pytest.raises(CollectionRefused, match="needs a name"):
        create_collection(shown.ben, shown.world.team.slug, "  ")
    other = create_team(shown.ben, "Ben's own")
    strange = create_collection(shown.ben, other.slug, "Feed-forward")
    with pytest.raises(CollectionRefused, match="own team alone"):
        put_in(shown.ben, strange.pk, shown.second.pk)
