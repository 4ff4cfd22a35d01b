"""The command `doctor`: looks at the models that a run would ask, and says what is wrong, why, and what to do."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from agents.engineers.llm.prompts import ours
from agents.llm.client import Price, known_price
from agents.llm.doctor import Examined, Finding, Health, examine
from agents.llm.doors import own_door
from agents.model_choice import ModelChoice, Role
from agents.model_options import check_engineers, models_of

WELL, UNWELL, BAD_INPUT = 0, 1, 2
_MARKS: dict[Health, str] = {"ok": "ok  ", "warn": "note", "bad": "BAD "}


def typical_question() -> str:
    """About as long as what a run asks its Coder: the prompts that it is told."""
    return "\n".join(ours()[name] for name in ("coder", "coder_feedback", "target_cuda", "planner", "verifier"))


def run(given: argparse.Namespace) -> int:
    """Look at a model and its server with some short questions. Exit status: 0 runs can use it, 1 they cannot, 2 bad input."""
    try:
        models = models_of(given)
        check_engineers(given, models)
    except ValueError as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    asked: dict[ModelChoice, list[Role]] = {}
    for role, choice in models.items():
        asked.setdefault(choice, []).append(role)
    lines = []
    for choice, roles in asked.items():
        print(f"{choice.model}{f' at {choice.api_base}' if choice.api_base else ''} ({', '.join(roles)})", flush=True)
        price = price_of(choice)
        found = examine(choice, own_door(choice), price, long_text=typical_question(), seconds=given.seconds, tell=_tell)
        usage = found.usage
        money = f"{usage.money:.4f} USD" if price else "of unknown price: --money is not enforced without --price"
        print(f"  {'Runs can use it' if found.ok else 'Runs cannot use it'}. "
              f"Asking took {usage.tokens_in} tokens in and {usage.tokens_out} out, {money}.", flush=True)  # fmt: skip
        lines.append(_line(choice, roles, found))
    well = all(line["ok"] for line in lines)
    if given.json:
        print(json.dumps({"ok": well, "models": lines}, ensure_ascii=False), flush=True)
    return WELL if well else UNWELL


def price_of(choice: ModelChoice) -> Price | None:
    """The price as given with the choice, else LiteLLM's; None where neither is there."""
    if choice.price_in is not None and choice.price_out is not None:
        return Price(choice.price_in / 1e6, choice.price_out / 1e6)
    return known_price(choice.model)


def _tell(finding: Finding) -> None:
    print(f"  {_MARKS[finding.health]} {finding.part:<9}  {finding.sentence}", flush=True)


def _line(choice: ModelChoice, roles: list[Role], found: Examined) -> dict[str, Any]:
    rows = [{"part": f.part, "health": f.health, "sentence": f.sentence} for f in found.findings]
    return {
        "model": choice.model,
        "api_base": choice.api_base,
        "roles": roles,
        "ok": found.ok,
        "findings": rows,
        "usage": found.usage.model_dump(include={"tokens_in", "tokens_out", "money", "unpriced"}),
    }
