"""The model judge of a team: which model, how it is asked, and what of its labels it is shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from agents.judges import Case, Judgement
from agents.judges import model as voting
from agents.judges.model import BrokenJudge, Shot
from agents.judges.prompt import Message
from agents.llm import client
from agents.llm.client import Question
from agents.llm.failures import ModelError
from agents.llm.keys import NoKey, without_secrets
from gpu_runner.contracts import digest
from stitchweb.datasets.models import Judge
from stitchweb.datasets.progress import Refused, Tell
from stitchweb.datasets.services import judging
from stitchweb.llm.doors import team_doors
from stitchweb.llm.models import TeamModel

SECONDS = 180.0  # of one question with its tries
MOST_TOKENS = 1500  # of one answer: a verbose one is cut and then not in the form
TEMPERATURE = 0.6  # above 0, for votes of one mind say nothing
FEW_CASES = 6  # that probes are made on: each costs votes


def asker(row: Judge) -> voting.Ask:
    """Puts one question to the judge's model. Refused where it cannot be reached at all."""
    found = TeamModel.objects.select_related("provider").filter(pk=row.recipe.get("model"), provider__team=row.team).first()
    if found is None:
        raise Refused("The model of this judge was removed from the team's models. Make a judge with another.")
    choice = found.choice
    try:
        door = team_doors(row.team_id)(choice)
    except NoKey as error:
        raise Refused(str(error)) from None
    row.recipe |= {"model_name": str(found), "votes": int(row.recipe.get("votes") or voting.VOTES)}

    def ask(messages: Sequence[Message]) -> str:
        question = Question(
            model=choice.model, messages=list(messages), max_tokens=min(MOST_TOKENS, choice.max_tokens), seconds=SECONDS,
            api_base=choice.api_base, key_name=door.name, secret=door.secret, guard=door.guard,
            temperature=TEMPERATURE if choice.temperature is None else choice.temperature,
        )  # fmt: skip
        try:
            return client.ask(question).text
        except (ModelError, NoKey) as error:
            raise Refused(f"The model could not be asked: {without_secrets(str(error))}") from None

    return ask


Finish = Callable[..., None]


def by_model(row: Judge, labels: judging.Labels, tell: Tell, finish: Finish) -> None:
    """Ask the model about a sample of what is held out, and calibrate it on that. Nothing of the train split is asked."""
    ask, data = asker(row), labels.data
    held = [one for one in labels.measured if data.split(one.candidate) != "train"]
    some = judging._sample(held, int(row.recipe.get("most") or judging.ASKED))
    if not some:
        raise Refused("There is no labelled candidate in the validation or test split to calibrate a model judge on.")
    shots = [
        Shot(data.case(one.candidate), one.made.level, one.made.hack_level or "none", reasons, data.group(one.candidate))
        for one, reasons in judging.settled_examples(labels)
    ]
    votes = int(row.recipe["votes"])
    rubric_name, rubric = data.rubric(some[0].rubric)
    row.recipe |= {"rubric": rubric_name, "shots": [one.group for one in shots], "prompt": _digest(rubric, shots)}
    stored = json.dumps({"rubric": rubric, "shots": [asdict(one) for one in shots]}, sort_keys=True).encode()
    row.sha256 = hashlib.sha256(stored).hexdigest()
    row.file = default_storage.save(f"judges/{row.sha256}.json", ContentFile(stored))
    scores: dict[str, tuple[Judgement, bool]] = {}
    broken = 0
    why = ""
    for at, one in enumerate(some):
        tell("Asking the model", at, len(some))
        try:
            said = voting.judge(ask, rubric, data.case(one.candidate), shots, data.group(one.candidate), votes)
        except BrokenJudge as error:
            broken, why = broken + 1, str(error)
            continue
        scores[one.sha256] = (said, True)
    row.recipe |= {"asked": len(some), "broken": broken}
    if not scores:
        raise Refused(f"The judge is broken: {why}. No candidate got a score.")
    scored = [judging._scored(data, one, scores[one.sha256][0]) for one in some if one.sha256 in scores]
    tell("Probing", 0, 1)
    cases = [data.case(one.candidate) for one in some if one.sha256 in scores][:FEW_CASES]

    def once(case: Case) -> Judgement:
        return voting.judge(ask, rubric, replace(case), shots, "", votes)

    try:
        finish(row, scored, once, cases, scores, labels)
    except BrokenJudge as error:
        raise Refused(f"The judge broke while it was probed: {error}.") from error


def _digest(rubric: Any, shots: Sequence[Shot]) -> str:
    """Of all that the model is told beside the case."""
    return digest({"rubric": rubric, "shots": [[s.group, dict(s.levels), s.hack_level] for s in shots]})[:16]


def material(stored: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Shot]]:
    """The rubric and the examples that a version was calibrated with, out of its file."""
    shots = []
    for one in stored["shots"]:
        case = Case(**one["case"] | {key: tuple(one["case"][key]) for key in ("points", "facts")})
        shots.append(Shot(**one | {"case": case}))
    return stored["rubric"], shots
