"""The agent worker's part: the real questions of "Test this model"."""

from __future__ import annotations

from agents.doctor import typical_question
from agents.llm import client
from agents.llm.doctor import Examined, examine
from agents.llm.keys import NoKey, without_secrets
from stitchweb.celery import app
from stitchweb.core import numbers
from stitchweb.llm.doors import team_doors
from stitchweb.llm.models import TeamModel
from stitchweb.llm.services import file_test
from stitchweb.studio.trying import TEST_MODEL

MOST_S = 120.0
_MOST_SAID = 600  # characters of a finding


@app.task(name=TEST_MODEL)
def test_model(model_id: int) -> None:
    """Ask a model some short questions and file what came of them. The message names the model; the key is read here."""
    model = TeamModel.objects.select_related("provider").filter(pk=model_id).first()
    if model is None:
        return
    listed = client.known_price(model.litellm_name)
    known = (listed.tokens_in * 1e6, listed.tokens_out * 1e6) if listed else None
    model.known_in, model.known_out = known or (None, None)
    try:
        found = _examined(model)
    except NoKey as error:
        file_test(model_id, False, str(error), known)
        return
    except Exception as error:  # whatever goes wrong is what the test is for; the message of an odd one may hold anything
        file_test(model_id, False, f"The question could not be put: {type(error).__name__}.", known)
        return
    told = [
        {"part": one.part, "health": one.health, "sentence": without_secrets(one.sentence)[:_MOST_SAID]}
        for one in found.findings
        if one.part not in ("server", "answer") and one.health != "bad"
    ]
    file_test(model_id, found.ok, without_secrets(_sentence(model, found)), known, told)


def _examined(model: TeamModel) -> Examined:
    choice, price = model.choice, model.price
    rate = client.Price(price[0] / 1e6, price[1] / 1e6) if price else None
    return examine(choice, team_doors(model.provider.team_id)(choice), rate, long_text=typical_question(), seconds=MOST_S)


def _sentence(model: TeamModel, found: Examined) -> str:
    """What is wrong, where something is; else what the model said and what asking it cost."""
    wrong = [one.sentence for one in found.findings if one.health == "bad"]
    if wrong:
        return " ".join(wrong)
    said = next(one.sentence for one in found.findings if one.part == "answer")
    cost = numbers.dollars(found.usage.money) if model.price else "price not known"
    return f"{said} The whole test took {found.usage.tokens_in} tokens in, {found.usage.tokens_out} out, {cost}."
