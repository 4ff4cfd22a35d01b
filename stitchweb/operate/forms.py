"""The form of a team's quota."""

from __future__ import annotations

from django import forms

from stitchweb.runs.models import Quota


class QuotaForm(forms.ModelForm):
    """Empty fields bound nothing."""

    class Meta:
        model = Quota
        fields = ["runs", "device_s", "tokens", "money"]

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        for name, field in self.fields.items():
            field.widget = forms.TextInput(attrs={"class": "in", "inputmode": "decimal", "autocomplete": "off"})
            if name in ("device_s", "money"):
                field.min_value = 0  # type: ignore[attr-defined]
                field.validators.append(_not_below_nothing)


def _not_below_nothing(value: float) -> None:
    if not 0 <= value < 1e12:
        raise forms.ValidationError("Use a number from 0 up, or leave it empty.")
