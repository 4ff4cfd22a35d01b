"""The API does what its description says, and refuses what it does not say: asked by schemathesis, the real application inside.

What is drawn is the same in every run. The slow test draws more of it, and other things each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from schemathesis.config import SchemathesisConfig

from stitchweb.api.models import Scope
from stitchweb.api.rest import watch
from stitchweb.api.tokens import make_token
from stitchweb.review.models import Rubric
from stitchweb.review.services.projects import create_project
from tests.stitchweb.parts_for_tests import REFERENCE
from tests.stitchweb.world_for_tests import make_world

# What fits the description may be refused for its content (422: a text that is no program), for roles and for the moment.
FINE = ["2xx", "304", "401", "403", "404", "409", "422", "429"]
# Half of what is drawn for these parameters is what there is: otherwise nearly every answer would be 404. Keys of rows are not
# known yet when the cases are drawn, so these numbers stand for them.
STAND_INS = {"done": 900_001, "live": 900_002, "program": 900_003, "project": 900_004}
VALUES: dict[str, list[Any]] = {
    "path.pk": list(STAND_INS.values()),
    "path.cid": ["c1", "c2", "c5"],
    "path.slug": ["kernel-team"],
    "path.path": ["model_new.py"],
    "path.number": [1],
    "body.text": [REFERENCE],
    "body.program": [STAND_INS["program"]],
}


# Every request of these tests brings a token, and what an address does not know in its query it does not read.
_LEFT_OUT = {"with-security-parameters": False, "allow-extra-parameters": False}


def _described(examples: int, deterministic: bool) -> Any:
    """The description of the application, and how much is drawn for each of its operations."""
    settings: dict[str, Any] = {
        "generation": {
            "max-examples": examples,
            "deterministic": deterministic,
            "mode": "all",
            "database": "none",
            **_LEFT_OUT,
        },
        "dictionaries": {name.replace(".", "-"): {"values": found} for name, found in VALUES.items()},
        "parameters": {name: {"dictionary": name.replace(".", "-"), "probability": 0.5} for name in VALUES},
        "checks": {"positive_data_acceptance": {"expected-statuses": FINE}},
        "suppress-health-check": ["all"],
    }
    config = SchemathesisConfig.from_dict(settings)
    return schemathesis.openapi.from_wsgi("/api/v1/openapi.json", get_wsgi_application(), config=config)


@pytest.fixture
def one_connection(db: None) -> Iterator[None]:
    """The application closes the database's connection with each request, and would end the test's transaction by it."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def asked(one_connection: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[int, int]]:
    """A token of somebody who may do everything in a team with runs, and the keys that the stand-ins stand for."""
    settings.API_PER_MINUTE = 10**9
    settings.UPLOAD_FORMS_PER_MINUTE = settings.UPLOADS_PER_HOUR = settings.RUNS_AT_ONCE = 10**6
    monkeypatch.setattr("channels.db.close_old_connections", lambda: None)
    monkeypatch.setattr(watch, "LONGEST_S", 0.0)  # a run that goes on would be watched for a quarter of an hour
    world = make_world()
    project = create_project(world.owner, world.team, Rubric.objects.get(key="kernels", version=1), "Norms")
    keys = {"done": world.done.pk, "live": world.live.pk, "program": world.program.pk, "project": project.pk}
    token = make_token(world.owner, "schemathesis", Scope.values, 7)[1]
    return token, {STAND_INS[name]: key for name, key in keys.items()}


def _holds(case: Any, asked: tuple[str, dict[int, int]]) -> None:
    token, keys = asked
    for drawn, name in ((case.path_parameters, "pk"), (case.body, "program")):
        if isinstance(drawn, dict) and isinstance(drawn.get(name), int) and drawn[name] in keys:
            drawn[name] = keys[drawn[name]]
    case.call_and_validate(headers={"Authorization": f"Bearer {token}"})


@_described(8, deterministic=True).parametrize()
def test_what_is_described_is_what_it_does(case: Any, asked: tuple[str, dict[int, int]]) -> None:
    _holds(case, asked)


@pytest.mark.slow
@_described(300, deterministic=False).parametrize()
def test_it_still_is_after_thousands_of_requests(case: Any, asked: tuple[str, dict[int, int]]) -> None:
    _holds(case, asked)
