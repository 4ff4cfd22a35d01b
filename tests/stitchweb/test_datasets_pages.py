"""Pages of datasets: who sees them, what they do, and that they hold with nothing and with much."""

from __future__ import annotations

import io
import zipfile
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.reward import PRESETS, Inputs, NotRated, Parameters, reward
from stitchweb.core.upkeep import often
from stitchweb.datasets.models import Export, Judge, Record, Reference, Release, Score, WorkState
from stitchweb.datasets.services.collect import collect
from stitchweb.datasets.services.placing import place
from stitchweb.datasets.services.rewards import store_rewards
from stitchweb.datasets.tasks import export_task, judge_task, release_task, rewards_task
from stitchweb.review.judge import judge as judge_of_team
from stitchweb.review.models import Seen
from stitchweb.review.services.projects import set_reviewers
from stitchweb.teams.models import User
from tests.conftest import World
from tests.stitchweb.conveyor import Conveyor
from tests.stitchweb.datasets_world import labelled, released
from tests.stitchweb.markup import well_formed
from tests.stitchweb.test_review_pages import text_of

pytestmark = pytest.mark.django_db
TASKS = {
    "stitchweb.make_release": release_task, "stitchweb.make_export": export_task, "stitchweb.make_judge": judge_task,
    "stitchweb.store_rewards": rewards_task,
}  # fmt: skip


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def deliver(conveyor: Conveyor) -> None:
    """The agent worker's turn."""
    while conveyor.messages:
        name, _, arguments = conveyor.messages.popleft()
        if name in TASKS:
            TASKS[name](**arguments)


@pytest.fixture
def owner(world: World, django_capture_on_commit_callbacks: Any, monkeypatch: pytest.MonkeyPatch) -> Client:
    """The owner's browser; what a form sends on commit is sent."""
    client = client_of(world.owner)
    post = client.post

    def posting(*args: Any, **more: Any) -> Any:
        with django_capture_on_commit_callbacks(execute=True):
            return post(*args, **more)

    monkeypatch.setattr(client, "post", posting)
    return client


def addresses(world: World) -> list[str]:
    slug = world.team.slug
    return [reverse(name, args=[slug]) for name in ("team-datasets", "references", "rewards", "judges")]


def test_managers_see_them_the_team_is_told_why_not_and_outsiders_find_nothing(world: World) -> None:
    for path in addresses(world):
        assert client_of(world.owner).get(path).status_code == 200
        assert client_of(world.teammate).get(path).status_code == 403
        assert client_of(world.viewer).get(path).status_code == 403
        assert client_of(world.outsider).get(path).status_code == 404
        assert Client().get(path).status_code == 302
    assert "neither in any team" in text_of(client_of(world.expert).get(reverse("datasets")))
    assert client_of(world.owner).get(reverse("datasets")).status_code == 302


def test_who_may_still_score_is_kept_out_and_who_has_read_scores_nothing_any_more(world: World) -> None:
    team = labelled(world)
    project = team.review_projects.get()
    numbers = list(project.reviewers.filter(left_at=None).values_list("user", flat=True))
    set_reviewers(world.owner, project, [*numbers, world.owner.pk])
    project.items.filter(gold=False).update(wanted=4)
    answer = client_of(world.owner).get(reverse("team-datasets", args=[team.slug]))
    assert answer.status_code == 403
    assert "may still come to you" in text_of(answer)
    set_reviewers(world.owner, project, numbers)
    assert client_of(world.owner).get(reverse("team-datasets", args=[team.slug])).status_code == 200
    assert Seen.objects.filter(user=world.owner, project=project, item=None).exists()


def test_a_release_is_asked_for_made_and_taken_home(world: World, owner: Client, conveyor: Conveyor) -> None:
    team = labelled(world)
    path = reverse("team-datasets", args=[team.slug])
    assert "No release yet" in text_of(owner.get(path))
    answer = owner.post(path, {"name": "2026-11"})
    page = reverse("release", args=[team.slug, "2026-11"])
    assert answer.url == page
    waiting = owner.get(page)
    well_formed(waiting.content.decode())
    assert "Waits for the agent worker" in text_of(waiting)
    assert 'hx-trigger="every 2s"' in waiting.content.decode()
    deliver(conveyor)
    made = owner.get(page)
    well_formed(made.content.decode())
    assert "All of it is synthetic" in text_of(made)
    assert "every 2s" not in made.content.decode()
    owner.post(reverse("release-export", args=[team.slug, "2026-11"]), {"format": "jsonl"})
    deliver(conveyor)
    row = Export.objects.get()
    assert row.state == WorkState.DONE
    well_formed(owner.get(page).content.decode())
    whole = b"".join(owner.get(reverse("export-file", args=[team.slug, row.pk])).streaming_content)  # type: ignore[attr-defined]
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        names = archive.namelist()
    assert {"README.md", "SHA256SUMS", "judge_sft/train.jsonl", "ratings_raw/gold.jsonl"} <= set(names)
    assert client_of(world.teammate).get(reverse("export-file", args=[team.slug, row.pk])).status_code == 403
    again = owner.post(path, {"name": "2026-11"})
    assert again.status_code == 422
    assert "choose another name" in text_of(again)
    assert "2026-11" in again.content.decode()


def test_what_waits_can_be_cancelled_and_a_message_that_comes_twice_makes_one(
    world: World, owner: Client, conveyor: Conveyor
) -> None:
    team = labelled(world)
    for name in ("one", "two"):
        owner.post(reverse("team-datasets", args=[team.slug]), {"name": name})
    owner.post(reverse("release-cancel", args=[team.slug, "one"]))
    conveyor.messages.extend(list(conveyor.messages))
    deliver(conveyor)
    assert dict(Release.objects.values_list("name", "state")) == {"one": "cancelled", "two": "done"}
    assert "Nothing was kept" in text_of(owner.get(reverse("release", args=[team.slug, "one"])))


def test_a_leak_stops_a_release_and_the_page_names_the_pair(world: World, owner: Client, conveyor: Conveyor) -> None:
    team = labelled(world)
    released(team)
    a, b = Reference.objects.filter(team=team, revision__program__name__startswith="Synthetic chain").order_by("pk")[:2]
    a.records.update(norm_sha256="f" * 64)
    b.records.update(norm_sha256="f" * 64)
    place(team)
    path = reverse("references", args=[team.slug])
    for row, split in ((a, "train"), (b, "test")):
        owner.post(path, {"reference": row.pk, "split": split, "license": "MIT"})
    page = owner.get(path, {"q": "chain"})
    well_formed(page.content.decode())
    assert "test, pinned" in text_of(page)
    owner.post(reverse("team-datasets", args=[team.slug]), {"name": "leaky"})
    deliver(conveyor)
    said = text_of(owner.get(reverse("release", args=[team.slug, "leaky"])))
    assert "they share a candidate" in said
    assert a.sha256[:12] in said
    assert "no split" in text_of(owner.post(path, {"reference": a.pk, "split": "nowhere"}, follow=True))
    assert "SPDX" in text_of(owner.post(path, {"reference": a.pk, "split": "", "license": "all mine!"}, follow=True))


def test_rewards_are_ranked_again_by_any_parameters_and_stored_on_request(
    world: World, owner: Client, conveyor: Conveyor
) -> None:
    team = labelled(world, 60, 10)
    path = reverse("rewards", args=[team.slug])
    assert "No candidate yet" in text_of(owner.get(path))
    owner.post(path, {"form": "shaped", "hack_from": "either", "strict": "1"})
    deliver(conveyor)
    page = owner.get(path)
    well_formed(page.content.decode())
    assert "No two candidates" in text_of(page)
    code = owner.get(path, {"preset": "code"})
    well_formed(code.content.decode())
    assert "<dt>Hacks that would be paid</dt><dd><b>0</b>" in text_of(code)
    open_door = text_of(owner.get(path, {"form": "shaped", "hack_from": "nothing", "r_max": "5"}))
    assert "<dt>Hacks that would be paid</dt><dd><b>0</b>" not in open_door
    assert "Orders that change" in open_door
    refused = owner.get(path, {"form": "shaped", "r_max": "-1"})
    assert refused.status_code == 422
    assert "greater than 0" in text_of(refused)


def test_a_local_judge_is_trained_calibrated_and_chosen(world: World, owner: Client, conveyor: Conveyor) -> None:
    team = labelled(world, 60, 12)
    path = reverse("judges", args=[team.slug])
    assert "No judge yet" in text_of(owner.get(path))
    page = owner.post(path, {"kind": "local"}).url
    assert "Waits for the agent worker" in text_of(owner.get(page))
    deliver(conveyor)
    row = Judge.objects.get()
    assert row.state == WorkState.DONE, row.problem
    shown = owner.get(page)
    well_formed(shown.content.decode())
    for word in ("Per dimension", "Major hacks", "Order within a reference", "Probes", "Drift", "By engineer"):
        assert word in text_of(shown), word
    assert row.figures["n"] == row.figures["double"] == 60
    assert row.figures["dimensions"]["cuda_engineering"]["qwk"]["value"] > 0.3
    assert row.figures["probes"]["comment injection"]["passed"]
    assert len(row.figures["drift"]["rater"]) == 5
    assert Score.objects.filter(judge=row).count() >= 60
    assert judge_of_team(team) is None
    Judge.objects.filter(pk=row.pk).update(gate="rank")
    owner.post(reverse("judge-choose", args=[team.slug, row.pk]), {"active": "1"})
    found = judge_of_team(team)
    assert found is not None
    assert found.name == "local judge 1"
    sha = Score.objects.filter(judge=row).values_list("sha256", flat=True)[0]
    assert found.scores(team, [sha])[sha].hack_level in ("major", "none")
    well_formed(owner.get(path).content.decode())
    owner.post(reverse("judge-choose", args=[team.slug, row.pk]), {"active": "0"})
    assert judge_of_team(team) is None


def test_a_judge_without_enough_labels_says_how_many_it_needs(world: World, owner: Client, conveyor: Conveyor) -> None:
    team = labelled(world, 8, 4)
    page = owner.post(reverse("judges", args=[team.slug]), {"kind": "local"}).url
    deliver(conveyor)
    assert "needs 30 in 5 or more" in text_of(owner.get(page))
    answer = owner.post(reverse("judges", args=[team.slug]), {"kind": "model"}, follow=True)
    assert "needs a model" in text_of(answer)


def test_pages_ask_as_often_whatever_there_is(world: World, owner: Client, django_assert_max_num_queries: Any) -> None:
    team = labelled(world, 60, 12)
    released(team)
    for path in addresses(world):
        owner.get(path)
        with django_assert_max_num_queries(24):
            owner.get(path)


def test_work_that_was_lost_is_sent_again_and_a_silent_worker_is_replaced(
    world: World, conveyor: Conveyor, django_capture_on_commit_callbacks: Any
) -> None:
    for name, state, minutes in (
        ("waits", "queued", 5),
        ("fresh", "queued", 0),
        ("silent", "running", 5),
        ("busy", "running", 1),
    ):
        Release.objects.create(team=world.team, name=name, state=state, heard_at=timezone.now() - timedelta(minutes=minutes))
    with django_capture_on_commit_callbacks(execute=True):
        often.send(sender=None)
        often.send(sender=None)
    names = Release.objects.in_bulk([arguments["pk"] for _, _, arguments in conveyor.messages])
    assert {row.name for row in names.values()} == {"waits", "silent"}
    assert len(conveyor.messages) == 2


def test_the_reward_of_every_stored_candidate_is_what_its_row_alone_gives(world: World) -> None:
    team = labelled(world, 60, 12)
    collect(team)
    for preset in PRESETS:
        store_rewards(team, preset=preset)
        rows = list(Record.objects.filter(team=team))
        assert len(rows) >= 60
        paid = 0
        for row in rows:
            try:
                again = reward(Inputs.model_validate(row.inputs), Parameters.model_validate(row.parameters))
            except (NotRated, ValueError):
                assert row.reward is None
                continue
            assert again == row.reward
            paid += again > 0
        assert paid, preset
