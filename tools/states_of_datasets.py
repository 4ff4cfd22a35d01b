"""The states of pages about datasets, for `tools/states.py`: releases, references, judges, rewards; empty and not."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from stitchweb.datasets.demo import seed_labels
from stitchweb.datasets.models import Export, Judge, Reference, Release, WorkState
from stitchweb.datasets.services.judging import activate, make_judge, request_judge
from stitchweb.datasets.services.releases import make_export, make_release, request_release
from stitchweb.datasets.services.rewards import store_rewards
from stitchweb.teams.models import Team, User
from stitchweb.teams.services import create_team, create_user

Pages = dict[str, tuple[str, str]]
LONG = "everything-that-was-labelled-before-the-second-rubric-came"
LEAK = (
    "The splits leak: “Synthetic chain 4” (0f3a9c1d22e4) is in train, and “Synthetic chain 9” (77b1c09aa2d1) in test: they"
    " share a candidate. Give both the same split, or take the pin off one, on the page of references."
)


def datasets_pages(told: Team) -> Pages:
    """Name: who looks and where. A team of its own, so that its runs are on no other page."""
    dora = create_user("dora@example.org", name="Dora")
    team = create_team(dora, "A team with labels")
    bare = create_team(create_user("dirk@example.org", name="Dirk"), "A team without labels")
    seed_labels(team, 60, 12)
    at = f"/datasets/{team.slug}/"
    places = {"releases": "", "references": "references/", "references-nothing": "references/?q=nothing", "judges": "judges/"}
    releases, judges = _releases(dora, team), _judges(dora, team)
    store_rewards(team)
    rewards = {"rewards": "", "rewards-other": "?preset=code", "rewards-bad": "?form=shaped&r_max=-1",
               "rewards-paid": "?form=shaped&hack_from=nothing&r_max=5"}  # fmt: skip
    return {
        "datasets-none": ("nemo", "/datasets/"), "datasets-closed": ("vera", f"/datasets/{told.slug}/"),
        **{f"datasets-{name}": ("dora", at + path) for name, path in places.items()},
        **{f"datasets-{name}": ("dora", f"{at}rewards/{query}") for name, query in rewards.items()},
        **{f"datasets-release-{row.state}": ("dora", f"{at}releases/{row.name}/") for row in releases},
        **{f"datasets-judge-{name}": ("dora", f"{at}judges/{row.pk}/") for name, row in judges.items()},
        **{f"datasets-{name}-none": ("dirk", f"/datasets/{bare.slug}/{path}")
           for name, path in (("releases", ""), ("references", "references/"), ("judges", "judges/"), ("rewards", "rewards/"))},
    }  # fmt: skip


def _releases(owner: User, team: Team) -> list[Release]:
    """One in each state; the one that is done has files in one form and those of the other under way."""
    for name in ("2026-10", "2026-11"):
        row = request_release(owner, team, name, send=False)
        make_release(row, lambda *told: None)
        first = Reference.objects.filter(team=team, split="train").order_by("pk")[0]
        Reference.objects.filter(pk=first.pk).update(license="Apache-2.0", pinned="train")
    export = Export.objects.create(release=row, format="jsonl", created_by=owner)
    make_export(export, lambda *told: None)
    state = {"state": WorkState.RUNNING, "doing": "Writing judge_preference", "at": 3, "of": 7}
    Export.objects.create(release=row, format="parquet", created_by=owner, **state)
    ends = {
        LONG: {"state": WorkState.RUNNING, "doing": "Reading the candidates of run 4711", "at": 37, "of": 120},
        "waits": {"state": WorkState.QUEUED, "heard_at": timezone.now() - timedelta(hours=2)},
        "leaky": {"state": WorkState.FAILED, "problem": LEAK},
        "not-wanted": {"state": WorkState.CANCELLED, "problem": "Cancelled. Nothing was kept."},
    }
    made = [Release.objects.create(team=team, name=name, created_by=owner, **fields) for name, fields in ends.items()]
    return [Release.objects.get(pk=row.pk), *made]


def _judges(owner: User, team: Team) -> dict[str, Judge]:
    done = request_judge(owner, team, "local", send=False)
    make_judge(done, lambda *told: None)
    activate(team, done.pk)
    name = "accounts/a-company/models/mixture-of-experts-405b-instruct-fp8"
    recipe = {"model": 1, "model_name": name, "votes": 5, "most": 100}
    failed = request_judge(owner, team, "model", recipe, send=False)
    said = "The model answered 3 of 40 questions as it was asked to. Test it on the page Models, or choose another."
    Judge.objects.filter(pk=failed.pk).update(state=WorkState.FAILED, problem=said)
    runs = request_judge(owner, team, "model", recipe, send=False)
    Judge.objects.filter(pk=runs.pk).update(state=WorkState.RUNNING, doing="Asking about candidate 12", at=12, of=40)
    return {"done": done, "failed": failed, "running": runs}
