"""The forms of a review project: how it is scored, which candidates come in, who scores."""

from __future__ import annotations

from typing import Any

from django import forms

from stitchweb.programs.forms import plain_line
from stitchweb.review.models import RANDOM_SHARE, ProjectState, Rubric
from stitchweb.review.services.projects import MAX_ITEMS, VERDICTS, Filters


class NewProject(forms.Form):
    """A new project. The choices of `team` and `rubric` are those of the person."""

    team = forms.ModelChoiceField(queryset=None, empty_label=None)
    rubric = forms.ModelChoiceField(queryset=Rubric.objects.all(), empty_label=None)
    name = forms.CharField(max_length=120, validators=[plain_line])
    overlap = forms.IntegerField(min_value=1, max_value=9, initial=2)
    coverage = forms.IntegerField(min_value=0, max_value=100, initial=100)
    random_share = forms.IntegerField(required=False, min_value=0, max_value=100, initial=RANDOM_SHARE)
    minutes = forms.IntegerField(min_value=5, max_value=1440, initial=60)

    def __init__(self, data: Any, teams: Any) -> None:
        super().__init__(data)
        self.fields["team"].queryset = teams  # type: ignore[attr-defined]

    def clean_random_share(self) -> int:
        share = self.cleaned_data["random_share"]
        return RANDOM_SHARE if share is None else share


class FilterForm(forms.Form):
    """Which candidates come into the queue. Empty fields mean any."""

    program = forms.IntegerField(required=False, min_value=1, max_value=2**53)
    target = forms.CharField(required=False, max_length=20)
    verdict = forms.ChoiceField(required=False, choices=[("", "any"), *((v, v) for v in VERDICTS)])
    engineer = forms.CharField(required=False, max_length=80)
    share = forms.IntegerField(min_value=1, max_value=100, initial=100)
    most = forms.IntegerField(min_value=1, max_value=MAX_ITEMS, initial=200)
    apart = forms.IntegerField(required=False, min_value=0, max_value=4)

    @property
    def filters(self) -> Filters:
        return Filters(**self.cleaned_data | {"apart": self.cleaned_data["apart"] or 0})


class ChangeForm(forms.Form):
    state = forms.ChoiceField(choices=ProjectState.choices)
    minutes = forms.IntegerField(min_value=5, max_value=1440)
    guidelines = forms.CharField(required=False, max_length=20_000)
    pass_mark = forms.IntegerField(required=False, min_value=0, max_value=100)
    keep_days = forms.IntegerField(required=False, min_value=0, max_value=36_500)
    seen = forms.IntegerField(required=False, min_value=0, max_value=2**53)

    def clean_pass_mark(self) -> int:
        return self.cleaned_data["pass_mark"] or 0


def sentences(form: forms.Form) -> str:
    """What is wrong with a form, each field with its name, as one text for a message."""
    return " ".join(f"{name.capitalize()}: {' '.join(errors)}" for name, errors in form.errors.items())
