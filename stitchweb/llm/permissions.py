"""What there is to do with a team's models."""

from __future__ import annotations

from stitchweb.core.permissions import MANAGERS, WORKERS, Action

SEE = Action("models.see", "See a team's model services and prompts, preview a prompt, choose a model for a run", WORKERS)
CHANGE = Action("models.change", "Add, change, test and remove model services, their keys, defaults and prompts", MANAGERS)
