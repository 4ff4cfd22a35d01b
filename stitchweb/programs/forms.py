"""The upload form: a text or files, the shapes of inputs where the text does not give them, and what describes the program."""

from __future__ import annotations

from typing import Any
from unicodedata import category

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from stitchweb.programs.uploads import DTYPES, InputSpec, Problem, parse_shape

MAX_INPUTS = 8
_JOINERS = "\u200c\u200d"  # parts of words in some scripts, and of emoji
MAX_ROWS = 64  # shown again after a refusal


def plain_line(value: str) -> None:
    """ValidationError for characters that no screen shows or that turn the text around them: names are read by others."""
    hidden = next((char for char in value if not (char.isprintable() or category(char) == "Zs" or char in _JOINERS)), None)
    if hidden is not None:
        raise ValidationError(f"It contains the invisible character U+{ord(hidden):04X}.", code="invisible")


class ProgramForm(forms.Form):
    """What a person brings. The text is checked by `uploads.check_source`, which knows lines and ways out."""

    text = forms.CharField(required=False, strip=False)
    name = forms.CharField(required=False, max_length=120, validators=[plain_line])
    description = forms.CharField(required=False, max_length=4000)
    tags = forms.CharField(required=False, max_length=400, validators=[plain_line])
    entry = forms.CharField(required=False, max_length=120, validators=[plain_line])

    def clean_text(self) -> str:
        return str(self.cleaned_data["text"]).replace("\r\n", "\n").removeprefix("\ufeff")

    @property
    def tag_words(self) -> tuple[str, ...]:
        return tuple(t.strip() for t in self.cleaned_data.get("tags", "").replace(";", ",").split(",") if t.strip())


def input_rows(data: QueryDict) -> list[dict[str, str]]:
    """The rows of the inputs form as typed, so that a refused form shows them again."""
    shapes, dtypes, highs = data.getlist("shape"), data.getlist("dtype"), data.getlist("high")
    rows = [
        {"shape": shape, "dtype": dtypes[i] if i < len(dtypes) else "float32", "high": highs[i] if i < len(highs) else ""}
        for i, shape in enumerate(shapes[:MAX_ROWS])
    ]
    return rows or [{"shape": "", "dtype": "float32", "high": ""}]


def input_specs(rows: list[dict[str, str]]) -> list[InputSpec]:
    """The rows that were filled in. ValueError with a sentence for a shape or number that is none."""
    specs = []
    for place, row in enumerate(rows, 1):
        if not row["shape"].strip():
            continue
        high = row["high"].strip() or "2"
        if not high.isdecimal() or len(high) > 12:
            raise ValueError(f"Input {place}: {high[:40]!r} is not a whole number of at most 12 digits.")
        specs.append(InputSpec(parse_shape(row["shape"]), row["dtype"], int(high)))
    if len(specs) > MAX_INPUTS:
        raise ValueError(f"There are {len(specs)} inputs; the form builds at most {MAX_INPUTS}.")
    return specs


def input_choices() -> dict[str, Any]:
    return {"dtypes": DTYPES, "max_inputs": MAX_INPUTS}


def form_problems(*of: forms.Form) -> list[Problem]:
    """What Django's checks found, in the words of the page: the field, the reason, what to write instead."""
    found = []
    for form in of:
        for name, errors in form.errors.as_data().items():
            field = form.fields[name]
            for error in errors:
                reason = " ".join(error.messages)
                found.append(
                    Problem("form", f"{field.label or name.replace('_', ' ').capitalize()}: {reason}", _way_out(field, error))
                )
    return found


def _way_out(field: forms.Field, error: ValidationError) -> str:
    if isinstance(field, forms.ChoiceField):
        return f"Choose one of {', '.join(str(value) for value, _ in field.choices)}."
    if isinstance(field, forms.IntegerField):  # of which every number field is one
        return f"Write a number from {field.min_value:g} to {field.max_value:g}."
    if error.code == "max_length":
        return "Shorten it."
    if error.code == "choose":
        return "Choose one of the list."
    if error.code == "said":  # the reason itself says what to do
        return ""
    return "Write it as plain text." if error.code in ("invisible", "null_characters_not_allowed") else "Correct it."
