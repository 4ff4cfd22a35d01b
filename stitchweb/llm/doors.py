"""How a run of a team reaches its models. The only reader of keys: it opens one in the process that asks, when it asks."""

from __future__ import annotations

from django.conf import settings

from agents.llm.doors import Door, Doors
from agents.llm.guard import Guard
from agents.llm.keys import NoKey, Secret
from agents.model_choice import ModelChoice
from stitchweb.llm.models import Provider
from stitchweb.llm.vault import Unsealable, unseal


def site_guard() -> Guard:
    """Which servers this site may ask."""
    return Guard(tuple(settings.MODEL_SERVERS), "MODEL_SERVERS")


def team_doors(team_id: int) -> Doors:
    """The doors of a team's runs. Each opening is one query, so a key that was changed or taken away counts from the next
    question on. NoKey with a sentence where the provider has gone, has moved, or its key cannot be read."""

    def door(choice: ModelChoice) -> Door:
        provider = Provider.objects.filter(team=team_id, ident=choice.key).first() if choice.key else None
        if provider is None:
            raise NoKey(f"The provider of {choice.model} was removed from the team's models. Start a run with another model.")
        if provider.api_base != choice.api_base:
            # A key goes to nobody but the address that it was given for.
            raise NoKey(f"{provider.name} has another base URL than when this run was started. Start the run again.")
        return Door(f"of {provider.name}", key_of(provider), site_guard())

    return door


def key_of(provider: Provider) -> Secret | None:
    """The provider's key, None where it has none. NoKey where it cannot be read any more."""
    if not provider.sealed:
        return None
    try:
        return Secret(provider.name, unseal(provider.team_id, provider.ident, provider.sealed))
    except Unsealable:
        raise NoKey(
            f"The key of {provider.name} cannot be read: MODEL_KEYS_SECRET is another than when it was stored. Enter it again."
        ) from None
