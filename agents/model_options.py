"""The options of the command line that say who does what, on which model, for how many tokens and how much money."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import ValidationError

from agents.engineers import engineer
from agents.llm.cassette import AUTO
from agents.llm.keys import NoKey, take_from_environment
from agents.model_choice import ModelChoice, Role
from agents.state import Budget

ROLES: tuple[Role, ...] = get_args(Role)
LLM, AGENTIC, DEMO = "llm", "agentic", "demo"  # that ask models, the last one recorded ones


def add_model_options(command: argparse.ArgumentParser) -> None:
    """`--engineer`, one option per role, and what the engineer `llm` needs. A value `coder=X` is for that role alone."""
    command.add_argument(
        "--engineer", default="offline", help="who plans, writes and judges: offline, llm, agentic or demo (default offline)"
    )
    for role in ROLES:
        command.add_argument(f"--{role}", metavar="ENGINEER", help=f"the engineer of this role, where it is another ({role})")
    models = _about_models(command)
    models.add_argument("--tokens", type=positive, help="to spend on a run at most, questions and answers")
    models.add_argument("--money", type=float, metavar="USD", help="to spend on a run at most; not enforced without a price")


def add_doctor_options(command: argparse.ArgumentParser) -> None:
    """The models to look at, said as for a run."""
    _about_models(command)
    command.set_defaults(engineer=LLM, **dict.fromkeys(ROLES))


def _about_models(command: argparse.ArgumentParser) -> Any:
    models = command.add_argument_group(
        "the engineers llm and agentic", "A value such as coder=X is for one role; without a role for all."
    )
    models.add_argument(
        "--model", action="append", default=[], help="PROVIDER/NAME; openai/NAME for any OpenAI-compatible server"
    )
    models.add_argument("--api-base", action="append", default=[], metavar="URL", help="of a server, up to /v1")
    models.add_argument("--api-key-env", action="append", default=[], metavar="VAR", help="the variable that holds the key")
    models.add_argument("--max-tokens", type=positive, default=16_384, help="of one answer (default 16384)")
    models.add_argument("--context", type=positive, metavar="TOKENS", help="that the model takes, question and answer together")
    models.add_argument("--temperature", type=float)
    models.add_argument("--price", type=float, nargs=2, metavar=("IN", "OUT"), help="dollars a million tokens, where not known")
    return models


def positive(text: str) -> int:
    """The type of an option that is a whole number from 1 on."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def engineers_of(given: argparse.Namespace) -> dict[Role, str]:
    """The engineer of each role."""
    return {role: getattr(given, role) or given.engineer for role in ROLES}


def models_of(given: argparse.Namespace) -> dict[Role, ModelChoice]:
    """The model of each role that asks one. ValueError with a sentence when one is missing or cannot be."""
    names, bases, keys = (_by_role(values) for values in (given.model, given.api_base, given.api_key_env))
    found: dict[Role, ModelChoice] = {}
    for role, name in engineers_of(given).items():
        if name not in (LLM, AGENTIC, DEMO):
            continue
        if name == DEMO:
            names.setdefault(role, AUTO)
        if role not in names:
            raise ValueError(
                f"The engineer {name} needs a model for the {role}: --model openai/NAME, or another provider's name."
            )
        price_in, price_out = given.price or (None, None)
        try:
            found[role] = ModelChoice(
                model=names[role], api_base=bases.get(role, ""), key=keys.get(role, ""), max_tokens=given.max_tokens,
                context=given.context, temperature=given.temperature, price_in=price_in, price_out=price_out,
            )  # fmt: skip
        except ValidationError as error:
            raise ValueError(str(error.errors()[0]["msg"]).removeprefix("Value error, ")) from error
    return found


def check_engineers(given: argparse.Namespace, models: Mapping[Role, ModelChoice]) -> None:
    """Raises ValueError with a sentence when an engineer does not exist, the roles do not go together, or a key is missing.
    Takes the named keys out of the environment."""
    names = engineers_of(given)
    for name in sorted(set(names.values())):
        engineer(name)
    if names["coder"] == "offline" and names["planner"] != "offline":
        raise ValueError("The offline Coder writes what its own Planner found and nothing else: take both, or another Coder.")
    for variable in sorted({choice.key for choice in models.values() if choice.key}):
        try:
            take_from_environment(variable)
        except NoKey as error:
            raise ValueError(str(error)) from error


def budget_of(given: argparse.Namespace, seconds: float) -> Budget:
    """What the run may spend."""
    return Budget(attempts=given.attempts, wall_s=seconds, tokens=given.tokens, money=given.money)


def _by_role(values: Sequence[str]) -> dict[Role, str]:
    """Values by role; one that names its role goes before one that names none."""
    common: dict[Role, str] = {}
    own: dict[Role, str] = {}
    for value in values:
        word, _, rest = value.partition("=")
        named = [role for role in ROLES if role == word]
        own |= dict.fromkeys(named, rest)
        common |= dict.fromkeys(() if named else ROLES, value)
    return common | own
