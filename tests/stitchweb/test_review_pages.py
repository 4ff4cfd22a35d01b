"""The review pages: blind until submission, for its reviewer alone, usable without a script."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from gpu_runner.contracts import HackClass
from stitchweb.review.agreement import alpha
from stitchweb.review.mask import HIDDEN as MASK
from stitchweb.review.mask import Mask
from stitchweb.review.models import Assignment, Draft, Held, Item, Project, Review
from stitchweb.review.services.projects import Filters, create_project, fill, hidden_words, set_reviewers
from stitchweb.runs.models import Event, Run
from stitchweb.teams.models import Role, User
from stitchweb.teams.services import set_role
from tests.stitchweb.markup import well_formed
from tests.stitchweb.review_world import make_desk
from tests.stitchweb.views_for_tests import story
from tests.stitchweb.world_for_tests import World, make_world, tell_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk(db: None) -> PageDesk:
    return PageDesk(make_world())


class PageDesk:
    """The told world with a review project in it, and browsers of its people."""

    def __init__(self, world: World) -> None:
        self.world = world
        made = make_desk(world.team, world.owner)
        self.project, self.rita, self.raj = made.project, made.rita, made.raj

    def client(self, user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    def take(self, user: User) -> tuple[Client, str]:
        """A signed-in client and the path of the item that the person scores now."""
        client = self.client(user)
        answer = client.post(f"/review/projects/{self.project.pk}/next")
        assert answer.status_code == 302
        assert answer.url.startswith("/review/items/")
        return client, answer.url


FORM = {
    "level-anti_hacking": "4", "level-cuda_engineering": "5", "reason-cuda_engineering": "At the roof.",
    "level-operator_coverage": "3", "level-skill_compliance": "4", "hack_level": "none",
}  # fmt: skip


def text_of(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def test_the_queue_is_filled_with_each_candidate_once(desk: PageDesk) -> None:
    items = list(Item.objects.filter(project=desk.project))
    assert 3 <= len(items) == len({i.sha256 for i in items})
    assert fill(desk.world.owner, desk.project, Filters()) == 0


def test_filters_choose_by_verdict_share_and_number_and_do_not_tell_reviewers(desk: PageDesk) -> None:
    world = desk.world
    rubric = desk.project.rubric
    wrong = create_project(world.owner, world.team, rubric, "Wrong ones")
    fill(world.owner, wrong, Filters(verdict="incorrect"))
    every = create_project(world.owner, world.team, rubric, "One", coverage=0)
    assert fill(world.owner, every, Filters(most=1, share=90)) <= 1
    assert set(every.items.values_list("wanted", flat=True)) <= {1}
    assert "incorrect" not in "".join(wrong.items.values_list("why", flat=True))


def test_guidelines_are_markdown_without_a_way_for_scripts(desk: PageDesk) -> None:
    page = desk.client(desk.rita).get(f"/review/projects/{desk.project.pk}/").content.decode()
    assert "<strong>Read</strong>" in page
    assert "<script>alert" not in page


@pytest.mark.parametrize("path", ["/review/", "/review/rubric/", "/review/rubric/kernels/1/?skill=feedback", "project", "item"])
def test_pages_of_a_reviewer_are_well_formed(desk: PageDesk, path: str) -> None:
    client, item = desk.take(desk.rita)
    path = {"project": f"/review/projects/{desk.project.pk}/", "item": item}.get(path, path)
    answer = client.get(path)
    assert answer.status_code == 200
    well_formed(answer.content.decode())


def test_who_has_no_part_in_it_finds_nothing(desk: PageDesk) -> None:
    _, item = desk.take(desk.rita)
    for user in (desk.raj, desk.world.viewer, desk.world.outsider):
        assert desk.client(user).get(item).status_code == 404
        assert desk.client(user).post(item, FORM).status_code == 404
        assert desk.client(user).get(f"{item}code").status_code == 404
    for user in (desk.world.viewer, desk.world.outsider):
        assert desk.client(user).get(f"/review/projects/{desk.project.pk}/").status_code == 404
    assert Client().get(item).status_code == 302
    for act in ("change", "fill", "people"):
        assert desk.client(desk.rita).post(f"/review/projects/{desk.project.pk}/{act}").status_code == 403
    assert desk.client(desk.rita).get("/review/new/").status_code == 403


# What no answer may contain before the submission, beside the rubric's and the palette's own words.
HIDDEN = [
    "Ada Byron", "ada@example.org", "input-specialised", "build-failed", "timed-out", "full-precision", "reordered",
    "no-own-kernels", "offline",
]  # fmt: skip


def every_page_before(desk: PageDesk, user: User) -> list[str]:
    client, item = desk.take(user)
    parts = [
        f"{item}code?against={a}&file={f}" for a in ("nothing", "parent", "reference") for f in ("model_new.py", "reference.py")
    ]
    paths = ["/review/", f"/review/projects/{desk.project.pk}/", item, f"{item}?against=reference", *parts]
    pages = [text_of(client.get(path)) for path in paths]
    pages.append(text_of(client.post(item, {**FORM, "act": "save"}, headers={"accept": "application/json"})))
    pages.append(text_of(client.post(item, {"act": "submit"})))
    return pages


def test_no_answer_before_the_submission_holds_a_hidden_word(desk: PageDesk) -> None:
    seen = 0
    while Item.objects.filter(project=desk.project).exclude(assignments__user=desk.rita).exists():
        for page in every_page_before(desk, desk.rita):
            assert [word for word in HIDDEN if word.lower() in page.lower()] == []
            seen += 1
        client, item = desk.take(desk.rita)
        assert client.post(item, {**FORM, "act": "submit"}).status_code == 302
    assert seen > 20


FRESH = re.compile(r'(csrfmiddlewaretoken" value="|X-CSRFToken": "|data-now=")[^"]*|(?<=yours for )\d+')  # differs anyway


def told_as(world: World, **lies: Any) -> Run:
    """The told run, its candidates with another verdict, author and suspicion, by another owner."""
    events, blobs = story()
    changed = []
    for event in events:
        payload = dict(event.payload)
        if event.kind == "candidate.changed" and payload.get("verdict"):
            check = payload.get("check")
            payload |= {"verdict": lies["verdict"], "sentence": lies["says"], "title": lies["says"], "labels": lies["labels"],
                        "finding": lies["says"], "note": lies["says"]}  # fmt: skip
            if check:
                payload["check"] = check | {"hack": lies["hack"], "suspects": [lies["hack"]] if lies["hack"] else []}
        if event.kind == "run.created":
            payload |= {"engineers": dict.fromkeys(payload["engineers"], lies["engineer"])}
        changed.append(event.model_copy(update={"payload": payload}))
    return tell_run(world.revision, lies["owner"], changed, blobs)


def test_the_page_of_a_cheat_is_to_the_letter_that_of_an_honest_program(desk: PageDesk) -> None:
    """The same measurements under other verdicts, classes, authors and owners give the same page: nothing seeps through."""
    world = desk.world
    cache = str(HackClass.OUTPUT_CACHE)
    honest = told_as(world, verdict="verified", says="It is right.", labels=["full-precision"], hack=None, engineer="offline",
                     owner=world.owner)  # fmt: skip
    cheat = told_as(world, verdict=f"hack:{cache}", says="It remembers.", labels=["reordered"], hack=cache, owner=world.viewer,
                    engineer="llm:acme/gigacoder-9")  # fmt: skip
    client, item = desk.take(desk.rita)
    row = Assignment.objects.get(user=desk.rita)
    pages = []
    for run in (honest, cheat):
        Item.objects.filter(pk=row.item_id).update(run=run, candidate="c5")
        for path in (item, f"{item}?against=reference", f"{item}code?against=parent"):
            pages.append(
                re.sub(r'(csrfmiddlewaretoken" value="|X-CSRFToken": "|data-now=")[^"]*', r"\1", text_of(client.get(path)))
            )
    assert pages[:3] == pages[3:]
    assert "DRAM" in pages[0] or "Timing" in pages[0]


def test_a_peer_is_not_seen_before_and_is_seen_under_a_number_after(desk: PageDesk) -> None:
    client, item = desk.take(desk.rita)
    client.post(item, {**FORM, "comment": "the tile is too small", "act": "submit"})
    pages = every_page_before(desk, desk.raj)
    assert not any("too small" in page or "reviewer 1" in page or "Rita" in page for page in pages)
    other, item = desk.take(desk.raj)
    other.post(item, {**FORM, "level-operator_coverage": "1", "reason-operator_coverage": "one op", "act": "submit"})
    page = text_of(other.get(item))
    assert "reviewer 1" in page
    assert "the tile is too small" in page
    assert "2 apart" in page
    assert "Rita" not in page
    well_formed(other.get(item).content.decode())


def test_the_plain_form_saves_marks_undoes_and_submits(desk: PageDesk) -> None:
    client, item = desk.take(desk.rita)
    assert not Draft.objects.exists()
    page = client.get(item).content.decode()
    path = re.search(r'name="new-file" value="([^"]+)"', page)[1]  # type: ignore[index]
    new = {"new-dimension": "cuda_engineering", "new-side": "candidate", "new-first": "2", "new-last": "4", "new-file": path}
    marked = {**FORM, "reason-cuda_engineering": "", **new}
    assert client.post(item, {**marked, "act": "mark"}).status_code == 302
    page = client.get(item).content.decode()
    word = f"cuda_engineering|candidate|2|4|{path}"
    assert page.count(f'name="mark" value="{word}"') == 1
    client.post(item, {**FORM, "mark": word, "act": f"unmark {word}"})
    assert 'name="mark"' not in client.get(item).content.decode()
    client.post(item, {"act": "undo"})
    assert 'name="mark"' in client.get(item).content.decode()
    answer = client.post(item, {**FORM, "reason-cuda_engineering": "", "mark": word, "act": "submit"})
    assert answer.status_code == 302
    review = Review.objects.get()
    assert (review.user, review.hack_level, review.blind) == (desk.rita, "none", True)
    assert review.marks.get().file == path
    assert "scored" in text_of(client.get(item))


def test_what_is_missing_is_said_with_the_draft_kept(desk: PageDesk) -> None:
    client, item = desk.take(desk.rita)
    answer = client.post(item, {"level-anti_hacking": "1", "comment": "hm", "act": "submit"})
    assert answer.status_code == 422
    page = text_of(answer)
    for says in ("level 1 needs marked lines or a sentence", "CUDA Engineering has no level yet", "The hack level is open"):
        assert says in page
    assert "hm</textarea>" in page
    assert Assignment.objects.get().state == Held.RESERVED


def test_autosave_answers_what_is_left_and_for_how_long(desk: PageDesk) -> None:
    client, item = desk.take(desk.rita)
    told = client.post(
        item, {**FORM, "hack_level": "", "act": "save", "active": "3"}, headers={"accept": "application/json"}
    ).json()
    assert told["left"] == ["The hack level is open. Press H."]
    assert told["minutes"] >= 58
    assert told["content"]["scores"]["cuda_engineering"]["level"] == 5
    again = client.post(item, {**FORM, "act": "undo"}, headers={"accept": "application/json"}).json()
    assert again["draft"] is None


def test_skipping_gives_a_reason_and_leads_back(desk: PageDesk) -> None:
    client, item = desk.take(desk.rita)
    answer = client.post(item, {"act": "skip", "reason": "too-long"}, follow=True)
    assert "Skipped" in text_of(answer)
    assert client.get(item).status_code == 302
    assert client.post(item, {**FORM, "act": "save"}, headers={"accept": "application/json"}).status_code == 409


def test_a_name_in_the_code_is_masked_line_by_line(desk: PageDesk) -> None:
    mask = Mask(["Ada Byron", "llm:acme/coder"], hidden_words())
    assert mask.code("// by ada byron\nint x;\n") == f"// by {MASK}\nint x;\n"
    assert mask.prose("it looks like output_cache, verified") == f"it looks like {MASK}, {MASK}"
    assert mask.code("verified = output_cache(x)") == "verified = output_cache(x)"


def test_a_candidate_that_is_gone_can_only_be_skipped(desk: PageDesk) -> None:
    client, item = desk.take(desk.rita)
    Event.objects.all().delete()
    page = client.get(item)
    assert page.status_code == 410
    assert "not stored here any more" in text_of(page)
    assert client.get(f"{item}code").status_code == 404
    well_formed(page.content.decode())
    assert client.post(item, {"act": "skip", "reason": "cannot-read"}).status_code == 302
    assert desk.take(desk.rita)[1] != item


def test_the_manager_makes_fills_and_staffs_a_project_by_forms(desk: PageDesk) -> None:
    world = desk.world
    client = desk.client(world.owner)
    well_formed(client.get("/review/new/").content.decode())
    form = {
        "team": world.team.pk,
        "rubric": desk.project.rubric_id,
        "name": "Second",
        "overlap": 3,
        "coverage": 50,
        "minutes": 30,
    }
    assert client.post("/review/new/", {**form, "overlap": 12}).status_code == 422
    path = client.post("/review/new/", form).url
    assert client.post(f"{path}fill", {"share": 100, "most": 50}).status_code == 302
    assert client.post(f"{path}people", {"user": [desk.rita.pk]}).status_code == 302
    assert client.post(f"{path}change", {"state": "paused", "minutes": 45, "guidelines": "Look twice."}).status_code == 302
    project = Project.objects.get(name="Second")
    assert project.items.count() >= 3
    assert (project.state, project.reservation_minutes, project.guidelines) == ("paused", 45, "Look twice.")
    page = client.get(path)
    well_formed(page.content.decode())
    assert "Look twice." in text_of(page)
    answer = desk.client(desk.rita).post(f"{path}next", follow=True)
    assert "not open" in text_of(answer)


def test_the_item_page_asks_the_database_no_more_for_a_long_queue(desk: PageDesk) -> None:
    client, item = desk.take(desk.rita)
    client.get(item)
    with CaptureQueriesContext(connection) as few:
        client.get(item)
    some = desk.project.items.first()
    assert some is not None
    Item.objects.bulk_create(
        Item(project=desk.project, run=some.run, candidate="c1", sha256=f"{i:064x}", skill="feedback", why="", rank=2, wanted=2)
        for i in range(300)
    )
    with CaptureQueriesContext(connection) as many:
        client.get(item)
    assert len(many) == len(few) <= 30


IN_PLACE = {"hx-request": "true"}


def test_the_next_item_comes_in_the_answer_that_takes_it(desk: PageDesk) -> None:
    """To a script: the page between the bars, under the item's own address; its profile has one of its own."""
    client = desk.client(desk.rita)
    answer = client.post(f"/review/projects/{desk.project.pk}/next", headers=IN_PLACE)
    place = answer["Content-Location"]
    assert answer.status_code == 200
    assert Assignment.objects.get().pk == int(place.split("/")[3])
    whole = FRESH.sub(r"\1", text_of(client.get(place)))
    alone = FRESH.sub(r"\1", text_of(answer))
    assert "<html" not in alone
    assert re.search("<title>.* · Review · StitchWeb</title>", alone)
    late = f'data-late="{place}profile"'
    assert (late in alone, late in whole) == (True, False)
    before, _, rest = alone[alone.index('<nav class="crumbs"') :].partition('<section class="panel profile"')
    assert before in whole
    assert rest[rest.index('<form class="stack col-score"') :].strip() in whole
    assert text_of(client.get(f"{place}profile")).strip() in whole
    assert client.post(f"/review/projects/{desk.project.pk}/next", headers=IN_PLACE)["Content-Location"] == place
    assert Assignment.objects.count() == 1
    assert desk.client(desk.raj).get(f"{place}profile").status_code == 404


def test_an_item_is_made_ready_in_silence_and_only_the_coming_is_confirmed(desk: PageDesk) -> None:
    client, at = desk.client(desk.rita), f"/review/projects/{desk.project.pk}/next"
    page = client.post(at, {"ahead": "take"}, headers=IN_PLACE)
    row = Assignment.objects.get()
    assert (page.status_code, page["Content-Location"]) == (200, f"/review/items/{row.pk}/")
    assert "yours for 60 min more" in text_of(page)  # which it is as soon as somebody reads it
    came = client.post(at, {"ahead": str(row.pk)}, headers=IN_PLACE)
    assert (came.status_code, came.content, came["Content-Location"]) == (204, b"", page["Content-Location"])
    other = client.post(at, {"ahead": "999"}, headers=IN_PLACE)  # a page of something else: this is the one
    assert (other.status_code, other["Content-Location"]) == (200, page["Content-Location"])
    client.post(page["Content-Location"], {**FORM, "act": "save"})
    assert client.post(at, {"ahead": "take"}, headers=IN_PLACE).status_code == 204  # a draft may change elsewhere
    Project.objects.update(state="paused")
    refused = desk.client(desk.raj)
    assert refused.post(at, {"ahead": "take"}, headers=IN_PLACE).status_code == 204
    assert "not open" not in text_of(refused.get("/review/"))


def test_where_no_item_comes_the_answer_says_where_to_go(desk: PageDesk) -> None:
    client, _ = desk.take(desk.rita)
    at = f"/review/projects/{desk.project.pk}/next"
    Event.objects.all().delete()
    gone = client.post(at, headers=IN_PLACE)
    assert (gone.status_code, gone.content) == (204, b"")
    assert client.get(gone["Content-Location"]).status_code == 410
    Project.objects.update(state="paused")
    none = desk.client(desk.raj)
    refused = none.post(at, headers=IN_PLACE)
    assert (refused.status_code, refused["Content-Location"]) == (204, "/review/")
    assert "not open" in text_of(none.get("/review/"))


def test_the_agreement_on_the_page_is_that_of_the_labels(desk: PageDesk) -> None:
    path = f"/review/projects/{desk.project.pk}/agreement/"
    owner = desk.client(desk.world.owner)
    assert "No item has two labels yet" in text_of(owner.get(path))
    given: dict[str, list[int]] = {}
    for user, levels in ((desk.rita, "3424"), (desk.raj, "3434")):
        for level in levels[: desk.project.items.count()]:
            client, item = desk.take(user)
            form = {**FORM, "level-cuda_engineering": level}
            assert client.post(item, {**form, "act": "submit"}).status_code == 302
            row = Assignment.objects.get(pk=item.split("/")[3])
            given.setdefault(str(row.item_id), []).append(int(level))
    page = owner.get(path)
    well_formed(page.content.decode())
    value = alpha(list(given.values()))
    assert value is not None
    assert f">{value:.2f}<" in text_of(page)
    assert "All labels are one level" in text_of(page)
    assert "Rita" not in text_of(page)
    assert desk.client(desk.rita).get(path).status_code == 403


def test_all_labels_are_exported_with_their_marks_and_without_names(desk: PageDesk) -> None:
    path = f"/review/projects/{desk.project.pk}/labels.jsonl"
    client, item = desk.take(desk.rita)
    file = re.search(r'name="new-file" value="([^"]+)"', client.get(item).content.decode())[1]  # type: ignore[index]
    client.post(
        item, {**FORM, "mark": f"cuda_engineering|candidate|2|3|{file}", "comment": "line one\nline two", "act": "submit"}
    )
    other, item = desk.take(desk.raj)
    other.post(item, {"act": "skip", "reason": "not-my-field"})
    answer = desk.client(desk.world.owner).get(path)
    text = answer.content.decode()
    scored, skipped = map(json.loads, text.splitlines())
    assert answer["Content-Disposition"] == f'attachment; filename="labels-{desk.project.pk}.jsonl"'
    assert scored["levels"]["cuda_engineering"] == 5
    assert [(m["file"], m["first"], m["last"]) for m in scored["marks"]] == [(file, 2, 3)]
    assert (scored["rubric"], scored["reviewer"], scored["comment"]) == ("kernels/1", 1, "line one\nline two")
    assert (skipped["status"], skipped["skip_reason"], skipped["reviewer"]) == ("skipped", "not-my-field", 2)
    assert not re.search("rita|raj|ada|@example", text, re.IGNORECASE)
    assert desk.client(desk.rita).get(path).status_code == 403


def test_who_may_score_in_the_team_no_more_is_out_of_its_queues_at_once(desk: PageDesk) -> None:
    client, item = desk.take(desk.rita)
    set_role(desk.world.team, desk.rita, Role.VIEWER)
    assert client.get(item).status_code == 404
    assert client.post(item, {**FORM, "act": "save"}).status_code == 404
    assert client.post(f"/review/projects/{desk.project.pk}/next").status_code == 404


def test_the_list_of_queues_asks_no_more_for_many_projects(desk: PageDesk) -> None:
    client = desk.client(desk.rita)
    client.get("/review/")
    with CaptureQueriesContext(connection) as few:
        client.get("/review/")
    for i in range(5):
        project = create_project(desk.world.owner, desk.world.team, desk.project.rubric, f"More {i}")
        set_reviewers(desk.world.owner, project, [desk.rita.pk])
        fill(desk.world.owner, project, Filters())
    with CaptureQueriesContext(connection) as many:
        page = client.get("/review/")
    assert "More 4" in text_of(page)
    assert len(many) == len(few)
