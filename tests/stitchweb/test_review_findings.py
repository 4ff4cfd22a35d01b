"""What becomes of a hunch that told something: a run of the better candidate, a probe for others of the program."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_runner.contracts import Verdict
from stitchweb.review.access import to_score
from stitchweb.review.models import Assignment, Change, Hunch, Item, Probe, Rubric
from stitchweb.review.services.projects import create_project, set_reviewers
from stitchweb.runs.models import Control, Run
from stitchweb.teams.models import Role, User
from stitchweb.teams.services import set_role
from tests.stitchweb.conveyor import Conveyor
from tests.stitchweb.markup import well_formed
from tests.stitchweb.test_review_hunches import REPORT, score_the_rest, texts, work
from tests.stitchweb.test_review_pages import FORM, PageDesk, text_of
from tests.stitchweb.world_for_tests import make_world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def desk() -> PageDesk:
    return PageDesk(make_world())


def tried(
    desk: PageDesk, conveyor: Conveyor, what: str, verdict: Verdict, attach: str = "anti_hacking"
) -> tuple[Any, str, Hunch]:
    """Rita's hunch about the kernel or the inputs, checked with this verdict, and her scores of all items."""
    client, place = desk.take(desk.rita)
    sent = texts(client, place)
    key = "text-reference.py" if what == "inputs" else next(k for k in sent if k.endswith(".cpp"))
    old, new = ("1024)]", "512)]") if what == "inputs" else ("1e-5f", "1e-6f")
    assert old in sent[key]
    assert client.post(f"{place}hunch/", sent | {key: sent[key].replace(old, new), "note": "ZEBRA"}).status_code == 302
    work(conveyor, check=REPORT.model_copy(update={"verdict": verdict, "rows": ()}))
    client.post(f"{place}hunch/1/attach", {"dimension": attach})
    client.post(place, {**FORM, "act": "submit"})
    return client, place, Hunch.objects.get()


def keep(client: Any, hunch: Hunch, what: str) -> Any:
    return client.post(f"/review/hunches/{hunch.pk}/keep", {"as": what})


def test_a_candidate_that_was_found_right_is_run_once_and_never_scored_by_who_wrote_it(
    desk: PageDesk, conveyor: Conveyor
) -> None:
    client, place, hunch = tried(desk, conveyor, "kernel", Verdict.VERIFIED)
    assert keep(client, hunch, "candidate").status_code == 403  # other candidates of the program are still to be scored
    score_the_rest(desk)
    page = client.get(f"{place}hunch/")
    assert "can run it as a candidate" in text_of(page)  # a reviewer alone runs nothing
    assert keep(client, hunch, "candidate").status_code == 403
    set_role(desk.world.team, desk.rita, Role.MAINTAINER)
    page = client.get(place)
    well_formed(page.content.decode())
    assert "Run it as a candidate" in text_of(page)
    to = keep(client, hunch, "candidate").url
    assert keep(client, hunch, "candidate").url == to  # sent twice
    run = Run.objects.get(pk=int(to.split("/")[2]))
    item = hunch.assignment.item
    assert (run.revision, run.status) == (item.run.revision, "queued")
    control = Control.objects.get(run=run)
    assert control.kind == "candidate"
    assert "ZEBRA" not in json.dumps(control.data)
    hunch.refresh_from_db()
    assert hunch.kept_as == run
    assert "its run" in text_of(client.get(f"{place}hunch/"))
    owner_of(run, desk.world.owner)
    other = create_project(desk.world.owner, desk.world.team, Rubric.objects.get(key="kernels", version=1), "Later")
    set_reviewers(desk.world.owner, other, [desk.rita.pk, desk.raj.pk])
    made = Item.objects.create(
        project=other, run=run, candidate="c1", sha256="f" * 64, skill="feedback", why="all", rank=0, wanted=2
    )
    assert not to_score(desk.rita).filter(pk=made.pk).exists()
    assert to_score(desk.raj).filter(pk=made.pk).exists()
    assert Change.objects.filter(act="keep").count() == 1
    labels = desk.client(desk.world.owner).get(f"/review/projects/{desk.project.pk}/labels.jsonl").content.decode()
    assert f'"kept_as_run": {run.pk}' in labels


def owner_of(run: Run, user: User) -> None:
    """As if another person had started it: then only the hunch tells whose it is."""
    Control.objects.filter(run=run).delete()
    Run.objects.filter(pk=run.pk).update(owner=user)


@pytest.mark.parametrize(("what", "verdict"), [("kernel", Verdict.INCORRECT), ("inputs", Verdict.VERIFIED)])
def test_what_is_no_better_candidate_is_refused_with_a_sentence(
    desk: PageDesk, conveyor: Conveyor, what: str, verdict: Verdict
) -> None:
    client, place, hunch = tried(desk, conveyor, what, verdict)
    score_the_rest(desk)
    set_role(desk.world.team, desk.rita, Role.MAINTAINER)
    assert "Run it as a candidate" not in text_of(client.get(place))
    before = Run.objects.count()
    assert "the Verifier found right" in text_of(
        client.post(f"/review/hunches/{hunch.pk}/keep", {"as": "candidate"}, follow=True)
    )
    assert Run.objects.count() == before


def test_other_inputs_become_a_probe_for_other_candidates_of_the_program_and_not_for_the_same(
    desk: PageDesk, conveyor: Conveyor
) -> None:
    client, place, hunch = tried(desk, conveyor, "inputs", Verdict.INCORRECT)
    item = hunch.assignment.item
    score_the_rest(desk)
    assert keep(client, hunch, "probe").url == f"{place}hunch/"
    assert keep(client, hunch, "probe").status_code == 302  # sent twice
    probe = Probe.objects.get()
    assert (probe.number, probe.reference_sha256) == (1, item.run.revision.sha256)
    assert "512)]" in probe.text
    assert "Kept as probe 1" in text_of(client.get(f"{place}hunch/"))
    raj = desk.client(desk.raj)
    seen: dict[bool, str] = {}
    for _ in range(desk.project.items.count()):
        to = raj.post(f"/review/projects/{desk.project.pk}/next").url
        same = Assignment.objects.get(pk=int(to.split("/")[3])).item == item
        page = raj.get(f"{to}hunch/")
        well_formed(page.content.decode())
        assert "ZEBRA" not in text_of(page)
        seen[same] = text_of(page)
        with_it = text_of(raj.get(f"{to}hunch/?probe={probe.pk}"))
        assert ("512)]" in with_it) != same
        raj.post(to, {**FORM, "act": "submit"})
    assert "probe 1" in seen[False]
    assert "probe 1" not in seen[True]
    path = f"/review/projects/{desk.project.pk}/"
    [row] = map(json.loads, desk.client(desk.world.owner).get(f"{path}probes.jsonl").content.decode().splitlines())
    assert (row["probe"], row["found_on"], row["verdict"], row["note"]) == (1, item.sha256, "incorrect", "ZEBRA")
    assert "references with other inputs" in text_of(desk.client(desk.world.owner).get(f"{path}data/"))
    assert raj.get(f"{path}probes.jsonl").status_code == 403


def test_a_hunch_of_another_is_kept_by_who_reads_the_labels_and_by_nobody_else(desk: PageDesk, conveyor: Conveyor) -> None:
    _, _, hunch = tried(desk, conveyor, "inputs", Verdict.INCORRECT)
    assert keep(desk.client(desk.raj), hunch, "probe").status_code == 404
    assert keep(desk.client(desk.world.outsider), hunch, "probe").status_code == 404
    owner = desk.client(desk.world.owner)
    item = hunch.assignment.item
    page = owner.get(f"/review/projects/{desk.project.pk}/items/{item.pk}/labels/")
    well_formed(page.content.decode())
    assert "Keep as a probe" in text_of(page)
    assert keep(owner, hunch, "probe").url.endswith(f"/items/{item.pk}/labels/")
    assert Probe.objects.count() == 1
    Hunch.objects.update(attached="")
    assert keep(owner, hunch, "probe").status_code == 404
