"""The judges that a reward may rest on: a local one from its file, or a model that is asked. A broken judge is an error."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from agents.judges import Case, Judgement
from agents.judges import local as learned
from agents.judges import model as voting
from agents.judges.prompt import Message
from agents.llm import client
from agents.llm.client import Question
from agents.llm.failures import ModelError
from agents.llm.keys import NoKey, key_of, without_secrets
from agents.model_choice import ModelChoice
from agents.rubric import DIMENSIONS

SECONDS = 180.0  # of one question with its tries
MOST_TOKENS = 1500
TEMPERATURE = 0.6  # above 0, for votes of one mind say nothing


class BadJudge(ValueError):
    """What was named as a judge is none. The message is a sentence."""


class Rater(Protocol):
    """Rates a case. Raises BrokenJudge; no score is ever put in the place of one that it did not give."""

    name: str

    def rate(self, case: Case) -> Judgement: ...


class LocalRater:
    """A local judge's weights, the JSON that training it makes. Raises BadJudge for another file."""

    def __init__(self, path: Path) -> None:
        try:
            self._weights: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            learned.score(self._weights, Case("import torch\n", {"model_new.py": "class ModelNew:\n    pass\n"}))
        except OSError as error:
            raise BadJudge(f"The judge {path} cannot be read: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadJudge(f"The file {path} is no local judge ({error}); name the JSON file that training one made.") from None
        self.name = f"local judge {path.name}"

    def rate(self, case: Case) -> Judgement:
        try:
            return learned.score(self._weights, case)
        except (ValueError, ArithmeticError) as error:
            raise voting.BrokenJudge(f"The {self.name} failed: {error}.") from error


class ModelRater:
    """A model under a rubric, asked several times; its votes are one Judgement. One case at a time: a server has its own
    queue, and a batch must not open hundreds of connections."""

    def __init__(self, choice: ModelChoice, rubric: Mapping[str, Any], votes: int = voting.VOTES) -> None:
        self._choice, self._rubric, self._votes = choice, rubric, votes
        self._one = threading.Lock()
        self.name = f"model judge {choice.model}"

    def rate(self, case: Case) -> Judgement:
        try:
            with self._one:
                return voting.judge(self._ask, self._rubric, case, (), "", self._votes)
        except (ModelError, NoKey) as error:
            raise voting.BrokenJudge(f"The {self.name} could not be asked: {without_secrets(str(error))}") from None

    def _ask(self, messages: Sequence[Message]) -> str:
        choice = self._choice
        question = Question(
            model=choice.model, messages=list(messages), max_tokens=min(MOST_TOKENS, choice.max_tokens), seconds=SECONDS,
            api_base=choice.api_base, key_name=choice.key, secret=key_of(choice.key) if choice.key else None,
            temperature=TEMPERATURE if choice.temperature is None else choice.temperature,
        )  # fmt: skip
        return client.ask(question).text


def levels_of(judgement: Judgement) -> tuple[dict[str, float | None], str]:
    """Levels and hack level as the reward takes them: the expected level per dimension, and major from even chances on."""
    return {key: judgement.mean(key) for key in DIMENSIONS}, "major" if judgement.hack >= 0.5 else "none"


def read_rubric(path: Path) -> dict[str, Any]:
    """A rubric's content as JSON or TOML. Raises BadJudge."""
    import tomllib

    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        raise BadJudge(f"The rubric {path} cannot be read: {error}.") from None
    if not isinstance(found, dict) or {d.get("key") for d in found.get("dimensions", ())} != set(DIMENSIONS):
        raise BadJudge(f"The file {path} is no rubric: it needs the dimensions {', '.join(DIMENSIONS)}.")
    return found
