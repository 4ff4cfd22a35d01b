"""Which page about models does what."""

from __future__ import annotations

from stitchweb.core.permissions import Route, form, get, post
from stitchweb.llm.permissions import CHANGE, SEE
from stitchweb.runs.permissions import SEE_QUESTIONS
from stitchweb.teams.permissions import USE_SITE

ROUTES = {
    "models": get(USE_SITE),
    "team-models": get(SEE),
    "model-defaults": post(CHANGE),
    "provider-new": form(CHANGE),
    "provider": form(CHANGE),
    "provider-key": post(CHANGE),
    "provider-remove": post(CHANGE),
    "model-new": form(CHANGE),
    "model": form(CHANGE),
    "model-remove": post(CHANGE),
    "model-test": Route(get=SEE, post=CHANGE),
    "prompts": get(SEE),
    "prompt": form(SEE),  # the form previews; what saves asks for CHANGE
    "run-questions": get(SEE_QUESTIONS),
    "run-question": get(SEE_QUESTIONS),
}
TASKS = {"stitchweb.test_model": CHANGE}
