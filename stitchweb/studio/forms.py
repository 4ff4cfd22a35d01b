"""Providers, models and defaults as forms. A key goes in and never comes out: no form shows one again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from agents.llm.guard import Forbidden
from agents.model_choice import ModelChoice
from stitchweb.llm.doors import site_guard
from stitchweb.llm.models import KINDS, ROLES, SERVER, Provider, TeamModel
from stitchweb.programs.forms import plain_line
from stitchweb.runs.forms import OFFLINE, RoleField


class _Shown(forms.Form):
    def values(self) -> dict[str, str]:
        """What the fields hold, to be shown; never that of a key."""
        shown = {name: self[name].value() for name, field in self.fields.items() if name != "key"}
        return {name: "" if value is None else str(value) for name, value in shown.items()}


class ProviderForm(_Shown):
    """`kind` and `key` are asked of a new provider only."""

    kind = forms.ChoiceField(choices=KINDS, initial=SERVER)
    name = forms.CharField(max_length=60, required=False, validators=[plain_line])
    api_base = forms.CharField(max_length=300, required=False, label="Base URL", validators=[plain_line])
    key = forms.CharField(max_length=4000, required=False)

    def __init__(self, data: Any = None, provider: Provider | None = None) -> None:
        initial = {"name": provider.name, "api_base": provider.api_base} if provider else {}
        super().__init__(data, initial=initial)
        self.kind = provider.kind if provider else ""
        if provider:
            del self.fields["kind"], self.fields["key"]

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        kind = self.kind or found.get("kind")
        base = str(found.get("api_base", "")).strip().rstrip("/")
        if kind != SERVER:
            base = ""
        elif "api_base" in found and (why := unfit(base)):
            self.add_error("api_base", ValidationError(why, code="said"))
        found["api_base"] = base
        # A hosted service may go by its own name; a server has none.
        found["name"] = str(found.get("name", "")).strip() or ("" if kind == SERVER else dict(KINDS).get(str(kind), ""))
        if not found["name"] and "name" not in self.errors:
            self.add_error("name", ValidationError("A server needs a name.", code="said"))
        return found


def unfit(base: str) -> str:
    """Why a base URL cannot be asked by this site; empty where it can."""
    if not base:
        return "A server needs its base URL, such as https://models.example.org/v1."
    try:
        ModelChoice(model="openai/any", api_base=base)
        site_guard().addresses(base)
    except Forbidden as error:
        return str(error)
    except ValueError as error:
        said = getattr(error, "errors", list)()
        text = str(said[0]["msg"]).removeprefix("Value error, ") if said else str(error)
        return f"{text[:1].upper()}{text[1:]}."
    return ""


class ModelForm(_Shown):
    """A model of a provider. Prices in dollars a million tokens, both or none."""

    name = forms.CharField(max_length=120, validators=[plain_line], label="Name of the model")
    max_tokens = forms.IntegerField(min_value=256, max_value=1_000_000, initial=16_384, label="Longest answer, tokens")
    context = forms.IntegerField(min_value=1024, max_value=100_000_000, required=False, label="Question and answer, tokens")
    temperature = forms.FloatField(min_value=0.0, max_value=2.0, required=False)
    price_in = forms.FloatField(min_value=0.0, max_value=100_000, required=False, label="Price of a million tokens in, USD")
    price_out = forms.FloatField(min_value=0.0, max_value=100_000, required=False, label="Price of a million tokens out, USD")

    def __init__(self, data: Any = None, model: TeamModel | None = None) -> None:
        super().__init__(data, initial={name: getattr(model, name) for name in self.base_fields} if model else {})

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if {"price_in", "price_out"} <= found.keys() and (found["price_in"] is None) != (found["price_out"] is None):
            missing = "price_in" if found["price_in"] is None else "price_out"
            self.add_error(missing, ValidationError("One price without the other says nothing.", code="price"))
        context, most = found.get("context"), found.get("max_tokens")
        if context is not None and most is not None and context <= most:
            self.add_error("context", ValidationError(f"It must be more than the longest answer, {most}.", code="context"))
        return found


class KeyForm(_Shown):
    """A new key in the place of the old one."""

    key = forms.CharField(max_length=4000)


class DefaultsForm(_Shown):
    """Who does each role of a new run, unless the person who starts it says otherwise."""

    planner = RoleField(required=False)
    coder = RoleField(required=False)
    verifier = RoleField(required=False)

    def __init__(self, data: Any, models: Mapping[int, TeamModel], defaults: Mapping[str, int]) -> None:
        super().__init__(data, initial={role: str(defaults.get(role, OFFLINE)) for role, _ in ROLES})
        for role, _ in ROLES:
            self.fields[role].models = models  # type: ignore[attr-defined]
