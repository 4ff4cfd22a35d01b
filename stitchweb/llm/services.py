"""Every write about a team's models and prompts. Who may is asked by the caller, through `access`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.engineers.llm.prompts import ours, places
from stitchweb.llm.models import ROLES, Provider, RoleDefault, TeamModel, TeamPrompt
from stitchweb.llm.vault import seal
from stitchweb.teams.models import Team, User

SHORTEST_KEY = 8  # a shorter one could not be told from other words, and so not be kept out of them
_ENDING, _SHOWS_ITS_ENDING = 4, 20
MOST_PROMPT = 40_000  # characters


class Refused(Exception):
    """What was asked for cannot be. The message is a sentence with a way out."""


def checked_key(text: str) -> str:
    """A key as it is kept. Refused for what no service gives out."""
    key = text.strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise Refused("The key holds characters that no key has; it may be cut or wrapped. Copy it once more.")
    if len(key) < SHORTEST_KEY:
        raise Refused(f"A key of fewer than {SHORTEST_KEY} characters is none. A server that wants none gets none.")
    return key


@transaction.atomic
def add_provider(user: User, team: Team, name: str, kind: str, api_base: str, key: str) -> Provider:
    """A provider of the team, with a key where one is given. Refused for a key that is none, or a name that is taken."""
    if Provider.objects.filter(team=team, name=name).exists():
        raise Refused(f"There is a provider named {name} already. Choose another name.")
    provider = Provider.objects.create(team=team, name=name, kind=kind, api_base=api_base)
    if key:
        set_key(user, provider, key)
    return provider


@transaction.atomic
def change_provider(provider: Provider, name: str, api_base: str) -> bool:
    """A new name or base URL. True when the key was taken away with it: it was given for the address that was there before."""
    if Provider.objects.filter(team=provider.team_id, name=name).exclude(pk=provider.pk).exists():
        raise Refused(f"There is a provider named {name} already. Choose another name.")
    moved = api_base != provider.api_base
    dropped = moved and bool(provider.sealed)
    provider.name, provider.api_base = name, api_base
    provider.save(update_fields=["name", "api_base"])
    if moved:
        provider.models.update(test_state="", test_sentence="", test_findings=[], tested_at=None)
    if dropped:
        remove_key(provider)
    return dropped


@transaction.atomic
def set_key(user: User, provider: Provider, text: str) -> None:
    """The provider's key from now on, also for runs under way. Refused for a key that is none."""
    key = checked_key(text)
    provider.sealed = seal(provider.team_id, provider.ident, key)
    provider.ending = key[-_ENDING:] if len(key) >= _SHOWS_ITS_ENDING else ""
    provider.key_at, provider.key_by = timezone.now(), user
    provider.save(update_fields=["sealed", "ending", "key_at", "key_by"])
    provider.models.update(test_state="", test_sentence="", test_findings=[], tested_at=None)


def remove_key(provider: Provider) -> None:
    """The key is gone, and runs under way are told so at their next question."""
    provider.sealed, provider.ending, provider.key_at, provider.key_by = "", "", None, None
    provider.save(update_fields=["sealed", "ending", "key_at", "key_by"])


def save_model(provider: Provider, model: TeamModel | None, values: Mapping[str, Any]) -> TeamModel:
    """A new model of a provider, or other values of one. Refused for a name that is taken."""
    others = TeamModel.objects.filter(provider=provider, name=values["name"])
    if (others.exclude(pk=model.pk) if model else others).exists():
        raise Refused(f"{provider.name} has a model named {values['name']} here already.")
    saved = model or TeamModel(provider=provider)
    if model is not None and model.name != values["name"]:
        saved.known_in = saved.known_out = saved.tested_at = None
        saved.test_state, saved.test_sentence, saved.test_findings = "", "", []
    for field, value in values.items():
        setattr(saved, field, value)
    saved.save()
    return saved


@transaction.atomic
def set_defaults(team: Team, chosen: Mapping[str, TeamModel | None]) -> None:
    """The model of each role; None: the offline engineer. Refused for a pair that cannot work together."""
    if why := mismatch({role: bool(chosen.get(role)) for role, _ in ROLES}):
        raise Refused(why)
    RoleDefault.objects.filter(team=team).delete()
    RoleDefault.objects.bulk_create(RoleDefault(team=team, role=role, model=model) for role, model in chosen.items() if model)


def mismatch(asks: Mapping[str, bool]) -> str:
    """Why these roles do not go together, where `asks` says which of them ask a model; empty where they do."""
    if asks["planner"] and not asks["coder"]:
        return "The offline Coder writes what its own Planner found and nothing else. Take both, or a model for the Coder."
    return ""


def mark_asked(model: TeamModel) -> None:
    """A test of the model was sent on its way."""
    TeamModel.objects.filter(pk=model.pk).update(
        test_state="asked", test_sentence="", test_findings=[], tested_at=timezone.now()
    )


def file_test(
    pk: int,
    ok: bool,
    sentence: str,
    known: tuple[float, float] | None,
    findings: Iterable[Mapping[str, str]] = (),
) -> None:
    """What came of it. `known`: LiteLLM's price in dollars a million tokens in and out. Nothing where the model has gone."""
    known_in, known_out = known or (None, None)
    TeamModel.objects.filter(pk=pk).update(
        test_state="ok" if ok else "failed", test_sentence=sentence[:800], tested_at=timezone.now(),
        known_in=known_in, known_out=known_out, test_findings=[dict(found) for found in findings],
    )  # fmt: skip


def save_prompt(user: User, team: Team, name: str, text: str) -> None:
    """A text of the team in the place of our prompt `name`; our own text again takes it away. Refused for an empty one, a place
    that nothing fills, or one that our text needs and this one lacks."""
    text = text.replace("\r\n", "\n").strip() + "\n"
    if text.strip() == ours()[name].strip():
        reset_prompt(team, name)
        return
    if not text.strip():
        raise Refused("An empty prompt tells a model nothing. Write one, or go back to the text that comes with StitchWeb.")
    if len(text) > MOST_PROMPT:
        raise Refused(f"The prompt has {len(text)} characters; {MOST_PROMPT} is the most. Shorten it.")
    wanted, found = places(ours()[name]), places(text)
    if unknown := found - wanted:
        listed = ", ".join(f"{{{{{word}}}}}" for word in sorted(unknown))
        raise Refused(f"Nothing fills {listed}. {_known_places(wanted)}")
    if lacking := wanted - found:
        listed = ", ".join(f"{{{{{word}}}}}" for word in sorted(lacking))
        raise Refused(f"The text lacks {listed}, without which the model would miss what it needs. Put it in.")
    TeamPrompt.objects.update_or_create(
        team=team, name=name, defaults={"text": text, "changed_by": user, "changed_at": timezone.now()}
    )


def _known_places(wanted: frozenset[str]) -> str:
    listed = ", ".join(f"{{{{{word}}}}}" for word in sorted(wanted))
    return f"What is filled in this prompt: {listed}." if wanted else "Nothing is filled in this prompt."


def reset_prompt(team: Team, name: str) -> None:
    """The text that comes with StitchWeb again."""
    TeamPrompt.objects.filter(team=team, name=name).delete()
