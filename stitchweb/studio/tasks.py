"""The agent worker's part: the one real question of "Test this model"."""

from __future__ import annotations

from agents.llm import client
from agents.llm.client import Question
from agents.llm.failures import ModelError
from agents.llm.keys import NoKey, without_secrets
from stitchweb.celery import app
from stitchweb.core import numbers
from stitchweb.llm.doors import team_doors
from stitchweb.llm.models import TeamModel
from stitchweb.llm.services import file_test
from stitchweb.studio.trying import TEST_MODEL

WORDS = "This is a test of the connection. Answer with the one word: ready"
MOST_TOKENS, MOST_S = 512, 60.0


@app.task(name=TEST_MODEL)
def test_model(model_id: int) -> None:
    """Ask a model one short question and file what came of it. The message names the model; the key is read here."""
    model = TeamModel.objects.select_related("provider").filter(pk=model_id).first()
    if model is None:
        return
    ok, sentence = False, ""
    listed = client.known_price(model.litellm_name)
    known = (listed.tokens_in * 1e6, listed.tokens_out * 1e6) if listed else None
    model.known_in, model.known_out = known or (None, None)
    try:
        ok, sentence = True, _answered(model)
    except (ModelError, NoKey) as error:
        sentence = str(error)
    except Exception as error:  # whatever goes wrong is what the test is for; the message of an odd one may hold anything
        sentence = f"The question could not be put: {type(error).__name__}."
    file_test(model_id, ok, without_secrets(sentence), known)


def _answered(model: TeamModel) -> str:
    choice, price = model.choice, model.price
    door = team_doors(model.provider.team_id)(choice)
    question = Question(
        model=choice.model,
        messages=[{"role": "user", "content": WORDS}],
        max_tokens=min(MOST_TOKENS, model.max_tokens),
        seconds=MOST_S,
        api_base=choice.api_base,
        key_name=door.name,
        secret=door.secret,
        temperature=choice.temperature,
        stall_s=MOST_S,
        guard=door.guard,
    )
    rate = client.Price(price[0] / 1e6, price[1] / 1e6) if price else None
    answer = client.ask(question, rate)
    said = " ".join(answer.text.split())[:60] or "nothing, but called a tool"
    about = "" if answer.counted else "about "
    cost = numbers.dollars(answer.usage.money) if rate else "price not known"
    count = "" if answer.counted else " The server counts no tokens, so estimates are charged, which err upward."
    return (
        f"It answered “{said}” after {numbers.seconds(answer.seconds)}: {about}{answer.usage.tokens_in} tokens in, "
        f"{about}{answer.usage.tokens_out} out, {cost}.{count}"
    )
