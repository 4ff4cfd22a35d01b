"""Programs and runs."""

from __future__ import annotations

from collections.abc import Mapping

from stitchweb.core.permissions import Who
from stitchweb.runs import hosts, jobbook
from stitchweb.runs.models import ImportedProfile
from tests.stitchweb.matrix import Visit, Visits, whom
from tests.stitchweb.matrix.stage import Stage
from tests.stitchweb.parts_for_tests import REFERENCE


def visits(stage: Stage) -> Visits:
    world, run = stage.world, stage.world.done
    of_run = {"pk": run.pk}
    candidate = of_run | {"cid": "c5"}
    owner = stage.people[Who.OWNER]
    profile = ImportedProfile.objects.create(
        owner=owner, key="marmot", name="marmot.sqlite", summary={"schema": 1}, size=1, tool="nsys", sentence=""
    )
    mine = whom("owner")
    upload = {
        "team": stage.team.slug, "text": REFERENCE + "\n# another\n", "action": "save", "target": "cpu", "coder": "offline",
        "protocol": "strict", "mode": "eval", "precision": "as-reference", "attempts": "5", "minutes": "3",
    }  # fmt: skip

    secret = hosts.admit("w", ["run.cpu"])

    def token(who: Who) -> Mapping[str, str]:
        known = {"Authorization": f"Bearer {jobbook.token_of(stage.job.pk)}", "X-Runner-Secret": secret}
        return known if who is Who.RUNNER else {}

    job = Visit({"pk": stage.job.pk}, data={"worker": "w", "claim": "x", "batch": 1, "messages": []}, json=True, headers=token)
    return {
        "library": Visit(),
        "program": Visit({"pk": world.program.pk}),
        "program-source": Visit({"pk": world.program.pk}),
        "suite": Visit({"pk": world.suite.pk}),
        "upload": (Visit(method="GET"), Visit(method="POST", data=upload)),
        "status": Visit(),
        "profiles": Visit(),
        "profile": Visit({"pk": profile.pk}, meets=mine),
        "profile-delete": Visit({"pk": profile.pk}, meets=mine),
        "profile-file": Visit({"pk": profile.pk, "name": "summary.json"}, meets=mine),
        "runs": Visit(),
        "run": Visit(of_run),
        "run-events": Visit(of_run),
        "run-control": Visit(of_run, data={"kind": "hint", "text": "tiles"}),
        "run-replay": Visit(of_run, data={"row": "c5/x"}),
        "run-again": Visit(of_run),
        "run-plan": Visit({"pk": world.waiting.pk}),
        "run-diff": Visit(candidate),
        "run-edit": Visit(candidate),
        "run-zip": Visit(candidate, meets=frozenset()),  # a told run's state has no candidates: nobody gets one
        "run-log": Visit(candidate),
        "run-profile-file": Visit(candidate | {"name": "kernels.csv"}),
        "run-file": Visit(candidate | {"path": "model_new.py"}),
        "job-claim": job,
        "job-progress": job,
        "job-report": job,
        "runner-present": Visit(data={"name": "w"}, json=True, headers=token),
        # A token opens it to whoever has one; this one is good for nobody.
        "runner-join": Visit(data={"token": "x", "name": "v"}, json=True, refused=(409,), meets=whom()),
        "job-artifact": Visit({"pk": stage.job.pk, "name": "report.json"}, json=True, headers=token),
        "job-library": Visit({"pk": stage.job.pk}, headers=token),
    }


def sockets(stage: Stage) -> Mapping[str, str]:
    """Pattern to the address that is opened."""
    return {"ws/runs/<int:pk>/": f"/ws/runs/{stage.world.done.pk}/"}
