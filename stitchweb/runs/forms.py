"""The options of a run, as a form that answers with `agents.state.Options`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from agents.llm.cassette import AUTO
from agents.model_choice import ModelChoice, Role
from agents.state import MAX_WIDTH, Budget, Options, Search
from gpu_runner.contracts import PROTOCOLS, Mode, Precision
from stitchweb.llm.models import ROLES, TeamModel
from stitchweb.llm.services import mismatch
from stitchweb.runs import runners
from stitchweb.runs.dispatch import runner_queue
from stitchweb.runs.reading import Range

TARGETS = ("cpu", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
OFFLINE = "offline"
ABOUT_ROLES = {"planner": "finds what to do", "coder": "writes it", "verifier": "says what to do next"}
PROTOCOL_WORDS = {
    "strict": "every probe, every baseline, a second process",
    "quick": "eager only, one process, for a first look",
    "kernelbench": "KernelBench's own rules, to compare with its numbers",
}
PRECISION_WORDS = {Precision.AS_REFERENCE: "as reference", Precision.TF32: "TF32 allowed", Precision.BF16: "bf16 allowed"}
MODE_WORDS = {Mode.EVAL: "eval", Mode.TRAIN: "train", Mode.AS_CONSTRUCTED: "as constructed"}


class RoleField(forms.CharField):
    """Who does a role: `offline`, or the number of one of `models`. Cleans to that model, or None."""

    models: Mapping[int, TeamModel] = {}

    def clean(self, value: Any) -> TeamModel | None:
        text = str(value or OFFLINE).strip()
        if text == OFFLINE:
            return None
        model = self.models.get(int(text)) if text.isdecimal() and len(text) < 16 else None
        if model is None:
            raise ValidationError("There is no such model, or it was removed.", code="choose")
        return model


@dataclass(frozen=True)
class RoleChoice:
    """One role as the form draws it: its groups hold (value, name, remark)."""

    name: str
    label: str
    about: str
    chosen: str
    groups: list[tuple[str, list[tuple[str, str, str]]]]


class OptionsForm(forms.Form):
    """Target, engineers, budget and policy. Every field has a default, so an empty form is a good run.

    `models`: those that the person may choose of; `defaults`: role to the number of the one it has at first; `name_teams`: the
    person is in several, so each model says whose it is; `judge`: the name of one that may rank, empty where there is none.
    """

    target = forms.ChoiceField(choices=[(t, t) for t in TARGETS], initial="cpu")
    planner = RoleField(required=False)
    coder = RoleField(required=False)
    verifier = RoleField(required=False)
    coder_tools = forms.BooleanField(required=False, label="A Coder with tools")
    protocol = forms.ChoiceField(choices=[(name, name) for name in PROTOCOLS], initial="strict")
    mode = forms.ChoiceField(choices=[(m.value, m.value) for m in Mode], initial=Mode.EVAL.value, label="Mode of the module")
    precision = forms.ChoiceField(choices=[(p.value, p.value) for p in Precision], initial=Precision.AS_REFERENCE.value)
    attempts = forms.IntegerField(min_value=1, max_value=200, initial=12)
    minutes = forms.FloatField(min_value=0.1, max_value=24 * 60, initial=15, required=False, label="Wall time, min")
    device_seconds = forms.FloatField(min_value=1, max_value=86_400, required=False, label="Device time, s")
    tokens_k = forms.FloatField(min_value=1, max_value=100_000, required=False, label="Tokens, thousand")
    width = forms.IntegerField(min_value=1, max_value=MAX_WIDTH, initial=1, required=False, label="Programs at once")
    beam = forms.IntegerField(min_value=1, max_value=MAX_WIDTH, initial=1, required=False, label="From the best")
    money = forms.FloatField(min_value=0.01, max_value=10_000, required=False, label="Cost, USD")
    target_speedup = forms.FloatField(min_value=1.0, max_value=1000, required=False, label="Stop at speedup, ×")
    require_own_kernels = forms.BooleanField(required=False)
    approve_plan = forms.BooleanField(required=False)
    judge_ties = forms.BooleanField(required=False, label="A judge between equals")
    demo = forms.BooleanField(required=False)  # a recorded model does all roles

    def __init__(
        self,
        data: Any = None,
        models: Iterable[TeamModel] = (),
        defaults: Mapping[str, int] = {},
        *,
        name_teams: bool = False,
        judge: str = "",
        **more: Any,
    ) -> None:
        super().__init__(data, **more)
        self.models, self.name_teams, self.judge = list(models), name_teams, judge
        for role, _ in ROLES:
            self.fields[role].models = {model.pk: model for model in self.models}  # type: ignore[attr-defined]
            self.fields[role].initial = str(defaults.get(role, OFFLINE))

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if found.get("demo"):
            return found
        if all(role in found for role, _ in ROLES) and (why := mismatch({role: bool(found[role]) for role, _ in ROLES})):
            self.add_error("coder", ValidationError(why, code="said"))
        if found.get("coder_tools") and "coder" in found and not found["coder"]:
            why = "Tools are for a Coder that is a model: choose one for it, or leave them off."
            self.add_error("coder_tools", ValidationError(why, code="said"))
        if found.get("judge_ties") and not self.judge:
            why = "The team has no judge that may rank, so none can choose between candidates. Leave it off."
            self.add_error("judge_ties", ValidationError(why, code="said"))
        if (found.get("beam") or 1) > (found.get("width") or 1):
            self.add_error(
                "beam",
                ValidationError("More programs to start from than are written at once: lower it, or write more.", code="said"),
            )
        return found

    def options(self) -> Options:
        """The chosen options. Call it on a valid form."""
        chosen = self.cleaned_data
        tokens = chosen["tokens_k"]
        models: dict[Any, TeamModel] = {role: chosen[role] for role, _ in ROLES if chosen[role]}
        who: dict[str, Any] = {role: "llm" if role in models else OFFLINE for role, _ in ROLES}
        if chosen["coder_tools"]:
            who["coder"] = "agentic"
        asks: dict[Role, ModelChoice] = {role: model.choice for role, model in models.items()}
        if chosen["demo"]:
            who = {role: "demo" for role, _ in ROLES}
            asks = {role: ModelChoice(model=AUTO) for role, _ in ROLES}
        return Options(
            target="cpu" if chosen["demo"] else chosen["target"],
            **who,
            models=asks,
            protocol=PROTOCOLS[chosen["protocol"]],
            mode=Mode(chosen["mode"]),
            precision=Precision(chosen["precision"]),
            budget=Budget(
                attempts=chosen["attempts"],
                wall_s=chosen["minutes"] * 60 if chosen["minutes"] else None,
                tokens=round(tokens * 1000) if tokens else None,
                money=chosen["money"],
                device_s=chosen["device_seconds"],
            ),
            search=Search(width=chosen["width"] or 1, beam=chosen["beam"] or 1),
            require_own_kernels=chosen["require_own_kernels"],
            target_speedup=chosen["target_speedup"],
            approve_plan=chosen["approve_plan"],
            judge_ties=chosen["judge_ties"],
        )

    def choices(self) -> dict[str, object]:
        """What the template draws beside the fields; of each target whether it has a runner now. One query."""
        there = runners.there()
        words = {None: "no runner now", False: "runner starting", True: ""}
        return {
            "targets": [(target, words[there.get(runner_queue(target))]) for target in TARGETS],
            "roles": [self._role(role, label) for role, label in ROLES],
            "any_models": bool(self.models),
            "judge": self.judge,
            "protocols": [(name, PROTOCOL_WORDS.get(name, "")) for name in PROTOCOLS],
            "precisions": [(p.value, PRECISION_WORDS[p]) for p in Precision],
            "modes": [(m.value, MODE_WORDS[m]) for m in Mode],
        }

    def _role(self, role: str, label: str) -> RoleChoice:
        groups = []
        for provider, models in groupby(self.models, lambda model: model.provider):
            name = f"{provider.team}: {provider}" if self.name_teams else str(provider)
            groups.append((name, [(str(m.pk), m.name, "" if m.price else "price not known") for m in models]))
        return RoleChoice(role, label, ABOUT_ROLES[role], self.chosen(role) or OFFLINE, groups)

    def chosen(self, name: str) -> str:
        """The value to show: what was sent, else the default."""
        value = self[name].value()
        return "" if value is None else str(value)

    def values(self) -> dict[str, str]:
        return {name: self.chosen(name) for name, field in self.fields.items() if not isinstance(field, forms.BooleanField)}

    def ticked(self) -> dict[str, bool]:
        """Which boxes are ticked."""
        boxes = (name for name, field in self.fields.items() if isinstance(field, forms.BooleanField))
        return {name: bool(self[name].value()) for name in boxes}


class ReportForm(forms.Form):
    """How reports that people bring are read. Empty is fine: what the report itself names as iterations counts."""

    name = forms.CharField(max_length=120, required=False)
    range_name = forms.CharField(max_length=120, required=False, label="Name of the range")
    warmup = forms.IntegerField(min_value=0, max_value=1_000_000, required=False, initial=0, label="Ranges to leave out")

    def wanted(self) -> Range:
        """The chosen range. Call it on a valid form."""
        return Range(self.cleaned_data["range_name"].strip(), self.cleaned_data["warmup"] or 0)
