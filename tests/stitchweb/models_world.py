"""The states of the pages about models, for pictures and for the browser's tests: nothing yet, everything, and long names."""

from __future__ import annotations

import json
from typing import Any

from django.utils import timezone

from agents.engineers.llm.prompts import ours
from agents.events import Event
from stitchweb.llm.models import TeamModel
from stitchweb.llm.services import add_provider, file_test, mark_asked, save_model, save_prompt, set_defaults
from stitchweb.programs.models import Revision
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.models import RunState
from stitchweb.teams.models import Team, User
from stitchweb.teams.services import create_team, create_user
from tests.stitchweb.parts_for_tests import Teller
from tests.stitchweb.views_for_tests import story
from tests.stitchweb.world_for_tests import ANALYSIS, tell_run

LONG = "accounts/a-company-with-a-long-name/models/a-mixture-of-experts-of-a-very-long-name-405b-instruct-fp8"
KEY = "sk-told-0123456789abcdef"
FOUND_WELL = {
    part: {"part": part, "health": "ok", "sentence": "As it should be."}
    for part in ("streaming", "speed", "context", "tools", "structure")
}
_SHORT = (
    "It takes in 8192 tokens, question and answer together; questions of a run want about 16384. They are cut until they fit, "
    "which costs quality: start the server with a longer context, where the model allows one."
)
_NO_TOOLS = (
    "It does not call tools when asked to. It answered with words instead. Only the agentic engineer needs them; with this "
    "model take the engineer llm, or a model and server that offer tools."
)
LACKING = [
    {"part": "context", "health": "warn", "sentence": _SHORT},
    {"part": "tools", "health": "warn", "sentence": _NO_TOOLS},
]
SAID = "Both operations read and write the whole tensor, so I fuse them into one pass.\n\n```cpp kernels/chain.cpp\n…\n```\n"


def models_pages(revision: Revision, owner: User) -> dict[str, tuple[str, str]]:
    """Name: who looks and where, as `tools/states.py` prints them."""
    team = revision.program.team
    newcomer = create_user("mona@example.org", name="Mona")
    none = create_team(newcomer, "A team without models")
    model = _models(team, owner)
    wishes = "Three good items are better than ten.", "Two good items are better than ten.\nName shapes."
    save_prompt(owner, team, "planner", ours()["planner"].replace(*wishes))
    run, seq = _asked_run(revision, owner)
    base = f"/models/{team.slug}/"
    provider = f"{base}providers/{model.provider.ident}/"
    return {
        "models": ("ada", base),
        "models-none": ("mona", f"/models/{none.slug}/"),
        "provider-new": ("ada", f"{base}providers/new"),
        "provider": ("ada", provider),
        "model": ("ada", f"{base}{model.pk}/"),
        "model-new": ("ada", f"{provider}models/new"),
        "prompts": ("ada", f"{base}prompts/"),
        "prompt": ("ada", f"{base}prompts/planner/"),
        "run-asked": ("ada", f"/runs/{run}/"),
        "questions": ("ada", f"/runs/{run}/questions/"),
        "question": ("ada", f"/runs/{run}/questions/{seq}/"),
    }


def _models(team: Team, owner: User) -> TeamModel:
    hosted = add_provider(owner, team, "Anthropic", "anthropic", "", KEY)
    priced = save_model(hosted, None, {"name": "a-large-model", "context": 200_000})
    counted = "one two three four five six seven eight nine ten eleven twelv"
    works = f"It answered “{counted}” after 1.3 s. The whole test took 4,102 tokens in, 61 out, 0.0132 USD."
    file_test(priced.pk, True, works, (3.0, 15.0), [FOUND_WELL[part] for part in FOUND_WELL])
    asked = save_model(hosted, None, {"name": "a-small-model"})
    mark_asked(asked)
    house = add_provider(owner, team, "The machine under the desk", "server", "http://models.example.org:8080/v1", "")
    local = save_model(house, None, {"name": "a-local-coder-7b-q4", "max_tokens": 8192, "context": 32_768, "temperature": 0.2})
    works = f"It answered “{counted}” after 0.4 s. The whole test took 4,102 tokens in, 61 out, price not known."
    file_test(local.pk, True, works, None, [*(FOUND_WELL[part] for part in ("streaming", "speed", "structure")), *LACKING])
    long = save_model(house, None, {"name": LONG, "price_in": 0.9, "price_out": 0.9})
    why = "Nothing answers at http://models.example.org:8080/v1. Is the server running, and the URL right?"
    file_test(long.pk, False, why, None)
    add_provider(owner, team, "OpenAI", "openai", "", "")
    set_defaults(team, {"planner": None, "coder": priced, "verifier": local})
    return priced


def _asked_run(revision: Revision, owner: User) -> tuple[int, int]:
    """A run on models, and the number of one of its questions."""
    events, blobs = story()
    large = "anthropic/a-large-model"
    header = {"models": {"planner": large, "coder": large, "verifier": f"openai/{LONG}"}}
    teller = Teller(blobs=blobs, events=[events[0].model_copy(update={"payload": events[0].payload | header}), *events[1:-1]])
    teller.at = events[-2].at
    refused = "The provider takes no more calls for now: rate limit of the organisation."
    for role, money, error in (("planner", 0.0221, ""), ("coder", 0.0612, ""), ("coder", 0.0, refused), ("verifier", 0.0, "")):
        teller.tell("model.asked", _asked(teller, role, header["models"][role], money, error), who="engineer")
    usage = next(e.payload for e in reversed(events) if e.kind == "usage.changed")
    spent = {"tokens_in": 19_350, "tokens_out": 3_760, "money": 0.0833, "unpriced": 5_000}
    budget = usage["budget"] | {"tokens": 100_000, "money": 2.0}
    teller.tell("usage.changed", usage | {"usage": usage["usage"] | spent, "budget": budget})
    told: list[Event] = [*teller.events, events[-1].model_copy(update={"seq": len(teller.events) + 1, "at": teller.at + 1})]
    run = tell_run(revision, owner, told, blobs)
    _analysed(run.pk)
    return run.pk, next(e.seq for e in told if e.kind == "model.asked" and e.payload["role"] == "coder")


def _asked(teller: Teller, role: str, model: str, money: float, error: str) -> dict[str, Any]:
    asked = {
        "role": role, "model": model, "tokens_in": 6_450, "tokens_out": 0 if error else 1_253, "money": money,
        "price_known": role != "verifier", "counted": not error, "seconds": 21.4, "finish": "" if error else "stop", "tries": 1,
        "error": error, "pages": [] if role == "verifier" else ["cpu-normalisation", "cpu-vector-exp", "cpu-simd-loops"],
    }  # fmt: skip
    data = "## The reference program (data)\n\n…\n"
    messages = [{"role": "system", "content": ours()[role]}, {"role": "user", "content": data}]
    record = {**asked, "prompts": "0123456789ab", "messages": messages, "answer": "" if error else SAID}
    return asked | {"blob": teller.put(json.dumps(record))}


def _analysed(pk: int) -> None:
    """What a preview needs of a run's state beyond its events."""
    stored = RunState.objects.get(run=pk)
    blob = RunBlobs(pk).put(json.dumps(ANALYSIS | {"kind": "analysis"}).encode())
    summary = {"blob": blob.model_dump(), "eager_ms": 4.38}
    stored.state = stored.state | {"analysis": summary, "started_at": timezone.now().timestamp()}
    stored.save()
