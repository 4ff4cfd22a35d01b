"""A Verifier's answer as a decision, or a sentence why it is none."""

from __future__ import annotations

from typing import Any

from agents.engineers import UnusableAnswer
from agents.engineers.llm.loose_json import NotJson, read
from agents.state import Candidate, Decision, Route

_ROUTES: dict[str, Route] = {
    "retry": "retry", "repair": "retry", "fix": "retry",
    "optimise": "optimise", "optimize": "optimise", "refine": "optimise",
    "advance": "advance", "next": "advance", "accept": "advance",
    "replan": "replan",
    "stop": "stop", "finish": "stop",
}  # fmt: skip


def read_verdict(text: str, candidate: Candidate) -> Decision:
    """The decision about a candidate. UnusableAnswer with a sentence when there is no JSON or no route in it.

    A route that does not go with what was measured becomes the one that does: only what failed is repaired, only what is
    verified is refined.
    """
    try:
        value: dict[str, Any] = read(text, dict)
    except NotJson as error:
        raise UnusableAnswer(str(error)) from error
    given = value.get("route")
    route = _ROUTES.get(given.strip().lower()) if isinstance(given, str) else None
    if route is None:
        raise UnusableAnswer(f'The "route" has to be one of {", ".join(dict.fromkeys(_ROUTES.values()))}.')
    if candidate.verified and route == "retry":
        route = "optimise"
    elif not candidate.verified and route == "optimise":
        route = "retry"
    return Decision(
        candidate=candidate.id,
        route=route,
        bottleneck=_text(value.get("bottleneck"), 300),
        evidence=_texts(value.get("evidence"), 300),
        suggestions=_texts(value.get("suggestions"), 400),
        sentence=_text(value.get("sentence"), 600) or "The Verifier gave no reason.",
    )


def _text(value: Any, most: int) -> str:
    return " ".join(value.split())[:most] if isinstance(value, str) else ""


def _texts(value: Any, most: int) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    return tuple(text for item in value[:6] if (text := _text(item, most))) if isinstance(value, list) else ()
