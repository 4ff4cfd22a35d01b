"""Recordings of runs on models, played to whoever has no key: what models said is played, what is measured is measured now."""

from __future__ import annotations

from agents.engineers import register
from agents.engineers.agentic.engineer import Agentic


class Demo(Agentic):
    """Takes its answers from the recording that its roles name as their model, with or without tools. Asks nobody."""

    name = "demo"


register("demo", Demo)
