"""What the prompts are called on pages, in the order in which they are read."""

from __future__ import annotations

from agents.engineers.llm.prompts import ours

_ABOUT = {
    "planner": ("Planner", "what it is for, what it gets, and the form of its list"),
    "coder": ("Coder", "the rules of a candidate and the form of an answer"),
    "coder_from_scratch": ("Coder, first program", "added where there is nothing to build on"),
    "coder_feedback": ("Coder, after an attempt", "added where a candidate is repaired or refined"),
    "agentic": ("Coder, with tools", "added where the Coder calls tools instead of answering at once"),
    "verifier": ("Verifier", "how a candidate is judged and what the routes mean"),
    "target_cpu": ("Target: the CPU", "filled into the Coder's text"),
    "target_cuda": ("Target: an NVIDIA GPU", "filled into the Coder's text"),
    "repair": ("Repair", "said once after an answer that could not be read"),
}


def named(name: str) -> tuple[str, str]:
    """The title of a prompt and what it is about; a title out of the name where it is a new one."""
    return _ABOUT.get(name, (name.replace("_", " ").capitalize(), ""))


def in_order() -> list[str]:
    """The names of all prompts, those that nothing is said of here last."""
    known = list(_ABOUT)
    return sorted(ours(), key=lambda name: (known.index(name) if name in _ABOUT else len(known), name))
