"""Models, prompts, and what runs asked."""

from __future__ import annotations

from stitchweb.core.permissions import Who
from stitchweb.llm.permissions import CHANGE
from stitchweb.llm.services import add_provider, save_model
from tests.stitchweb.matrix import Visit, Visits, whom
from tests.stitchweb.matrix.stage import Stage
from tests.stitchweb.models_world import _asked_run


def visits(stage: Stage) -> Visits:
    owner, team = stage.people[Who.OWNER], {"slug": stage.team.slug}
    provider = add_provider(owner, stage.team, "House", "server", "http://93.184.215.14/v1", "sk-marmot-0123456789")
    model = team | {"pk": save_model(provider, None, {"name": "scripted-1", "max_tokens": 1000}).pk}
    at = team | {"ident": provider.ident}
    run, seq = _asked_run(stage.world.revision, owner)
    reads = whom("maintainer", "owner")  # the owner started it
    prompt = team | {"name": "planner"}
    return {
        "models": Visit(),
        "team-models": Visit(team),
        "model-defaults": Visit(team),
        "provider-new": Visit(team),
        "provider": Visit(at),
        "provider-key": Visit(at),
        "provider-remove": Visit(at),
        "model-new": Visit(at),
        "model": Visit(model),
        "model-remove": Visit(model),
        "model-test": Visit(model),
        "prompts": Visit(team),
        "prompt": (
            Visit(prompt, data={"action": "preview", "text": "words"}),
            Visit(prompt, data={"action": "save", "text": "words"}, method="POST", action=CHANGE),
        ),
        "run-questions": Visit({"pk": run}, meets=reads),
        "run-question": Visit({"pk": run, "seq": seq}, meets=reads),
    }
