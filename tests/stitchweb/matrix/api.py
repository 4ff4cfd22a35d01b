"""The API: everybody comes with a token of their own."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils import timezone

from stitchweb.api.models import ApiToken, Scope
from stitchweb.api.tokens import make_token
from stitchweb.core.permissions import Who
from tests.stitchweb.matrix import Visit, Visits, whom
from tests.stitchweb.matrix.stage import Stage
from tests.stitchweb.parts_for_tests import REFERENCE


def visits(stage: Stage) -> Visits:
    secrets = {who: make_token(person, "matrix", Scope.values, 7)[1] for who, person in stage.people.items()}
    ApiToken.objects.update(last_used_at=timezone.now())  # a use is noted once a minute; here it would look like a write
    own = ApiToken.objects.get(user=stage.people[Who.OWNER])

    def token(who: Who) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {secrets[who]}"} if who in secrets else {}

    def told(args: Mapping[str, object] | None = None, **more: object) -> Visit:
        return Visit(args or {}, json=True, headers=token, **more)  # type: ignore[arg-type]

    run, program, project = ({"pk": row.pk} for row in (stage.world.done, stage.world.program, stage.project))
    candidate = run | {"cid": "c5"}
    new = {"text": REFERENCE + "\n# by token\n", "team": stage.team.slug}
    reference = {"name": "a", "reference": REFERENCE, "files": {"model_new.py": "class ModelNew: pass\n"}}
    revision = {"text": REFERENCE + "\n# next\n"}
    return {
        "api-docs": Visit(),
        "api-client": Visit(),
        "api-nowhere": Visit(opens=(404,)),  # it says so in the words of the API
        "api:openapi-json": Visit(),
        "api:api-root": Visit(opens=(404,)),
        "tokens": Visit(data={"name": "x", "scope": ["read"], "days": "7"}),
        "token-revoke": Visit({"pk": own.pk}, meets=whom("owner")),
        "api:teams": told(),
        "api:team-models": told({"slug": stage.team.slug}),
        "api:programs": (told(method="GET"), told(method="POST", data=new)),
        "api:program": told(program),
        "api:revisions": told(program, data=revision),
        "api:source": told(program | {"number": 1}),
        "api:runs": (told(method="GET"), told(method="POST", data={"program": stage.world.program.pk})),
        "api:run": told(run),
        "api:cancel": told({"pk": stage.world.live.pk}, data={"x": 1}),
        "api:events": told(run),
        "api:watch": told(run),
        "api:candidates": told(run),
        "api:candidate": told(candidate),
        "api:file": told(candidate | {"path": "model_new.py"}),
        "api:build-log": told(candidate),
        "api:bundle": told(candidate, meets=frozenset()),  # a told run's state has no candidates: nobody gets one
        "api:projects": told(),
        "api:bring-in": told(project, data={"candidates": [reference]}),
        "api:labels": told(project),
        "api:probes": told(project),
    }
