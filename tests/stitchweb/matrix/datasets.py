"""Releases, exports, judges and rewards of a team."""

from __future__ import annotations

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from stitchweb.datasets.models import Export, Judge, Release, WorkState
from tests.stitchweb.matrix import Visit, Visits
from tests.stitchweb.matrix.stage import Stage


def visits(stage: Stage) -> Visits:
    team = {"slug": stage.team.slug}
    release = Release.objects.create(team=stage.team, name="marmots", state=WorkState.DONE, sha256="0" * 64)
    stored = default_storage.save("exports/marmots.zip", ContentFile(b"zip"))
    export = Export.objects.create(release=release, format="jsonl", state=WorkState.DONE, file=stored, size=3)
    judge = Judge.objects.create(team=stage.team, kind="local", version=1, state=WorkState.FAILED, problem="No labels.")
    Judge.objects.create(team=stage.team, kind="local", version=2, state=WorkState.DONE, gate="score", active=True)
    named, made, judged = (team | more for more in ({"name": release.name}, {"pk": export.pk}, {"pk": judge.pk}))
    return {
        "datasets": Visit(),
        "team-datasets": Visit(team, data={"name": "second"}),
        "release": Visit(named),
        "release-cancel": Visit(named),
        "release-export": Visit(named, data={"format": "jsonl"}),
        "export-cancel": Visit(made),
        "export-file": Visit(made),
        "references": Visit(team),
        "rewards": Visit(team),
        "judges": Visit(team),
        "judge": Visit(judged),
        "judge-cancel": Visit(judged),
        "judge-choose": Visit(judged),
        "run-judged": Visit({"pk": stage.world.done.pk}, query="candidate=c5"),
    }
