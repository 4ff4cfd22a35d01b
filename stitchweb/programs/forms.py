"""The upload form: a text or files, the shapes of inputs where the text does not give them, and what describes the program."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import QueryDict

from stitchweb.programs.uploads import DTYPES, InputSpec, parse_shape

MAX_INPUTS = 8


class ProgramForm(forms.Form):
    """What a person brings. The text is checked by `uploads.check_source`, which knows lines and ways out."""

    text = forms.CharField(required=False, strip=False)
    name = forms.CharField(required=False, max_length=120)
    description = forms.CharField(required=False, max_length=4000)
    tags = forms.CharField(required=False, max_length=400)
    entry = forms.CharField(required=False, max_length=120)

    def clean_text(self) -> str:
        return str(self.cleaned_data["text"]).replace("\r\n", "\n")

    @property
    def tag_words(self) -> tuple[str, ...]:
        return tuple(t.strip() for t in self.cleaned_data.get("tags", "").replace(";", ",").split(",") if t.strip())


def input_rows(data: QueryDict) -> list[dict[str, str]]:
    """The rows of the inputs form as typed, so that a refused form shows them again."""
    shapes, dtypes, highs = data.getlist("shape"), data.getlist("dtype"), data.getlist("high")
    rows = [
        {"shape": shape, "dtype": dtypes[i] if i < len(dtypes) else "float32", "high": highs[i] if i < len(highs) else ""}
        for i, shape in enumerate(shapes[:MAX_INPUTS])
    ]
    return rows or [{"shape": "", "dtype": "float32", "high": ""}]


def input_specs(rows: list[dict[str, str]]) -> list[InputSpec]:
    """The rows that were filled in. ValueError with a sentence for a shape or number that is none."""
    specs = []
    for place, row in enumerate(rows, 1):
        if not row["shape"].strip():
            continue
        high = row["high"].strip() or "2"
        if not high.isdecimal():
            raise ValueError(f"Input {place}: {high!r} is not a whole number.")
        specs.append(InputSpec(parse_shape(row["shape"]), row["dtype"], int(high[:12])))
    return specs


def input_choices() -> dict[str, Any]:
    return {"dtypes": DTYPES, "max_inputs": MAX_INPUTS}
