"""What people say of publications, comments, collections and links, as forms. What is refused stays in them."""

from __future__ import annotations

from typing import Any

from django import forms

from stitchweb.programs.forms import plain_line
from stitchweb.sharing.models import LICENCES
from stitchweb.sharing.services.collecting import MAX_DESCRIPTION
from stitchweb.sharing.services.linking import LIVES, LinkWish
from stitchweb.sharing.services.publishing import MAX_NOTES, Wish
from stitchweb.sharing.services.talk import MAX_TEXT

LIFE_WORDS = [("day", "1 day"), ("week", "7 days"), ("month", "30 days"), ("year", "1 year"), ("", "Without end")]
assert {key for key, _ in LIFE_WORDS if key} == set(LIVES)


class _Shown(forms.Form):
    def values(self) -> dict[str, Any]:
        """What the fields hold, to be shown; never a password."""
        return {name: self[name].value() or "" for name in self.fields if name != "password"}


class DescribeForm(_Shown):
    notes = forms.CharField(max_length=MAX_NOTES, required=False)
    licence = forms.ChoiceField(choices=LICENCES, initial="internal")
    tags = forms.CharField(max_length=400, required=False, validators=[plain_line])

    @property
    def tag_words(self) -> tuple[str, ...]:
        return tuple(word for word in self.cleaned_data["tags"].split(",") if word.strip())


class PublishForm(DescribeForm):
    name = forms.CharField(max_length=120, required=False, validators=[plain_line])
    version_of = forms.IntegerField(required=False, min_value=1, max_value=2**53)

    def wish(self) -> Wish:
        said = self.cleaned_data
        return Wish(said["name"], said["notes"], said["licence"], self.tag_words, said["version_of"])


class CommentForm(_Shown):
    text = forms.CharField(max_length=MAX_TEXT, required=False, label="Comment")


class CollectionForm(_Shown):
    name = forms.CharField(max_length=120, required=False, validators=[plain_line])
    description = forms.CharField(max_length=MAX_DESCRIPTION, required=False)


class LinkForm(_Shown):
    shows_numbers = forms.BooleanField(required=False, initial=True)
    shows_code = forms.BooleanField(required=False)
    shows_notes = forms.BooleanField(required=False)
    shows_profile = forms.BooleanField(required=False)
    life = forms.ChoiceField(choices=LIFE_WORDS, required=False, initial="month", label="How long it lives")
    password = forms.CharField(max_length=128, required=False, strip=False)
    label = forms.CharField(max_length=80, required=False, validators=[plain_line])

    def wish(self) -> LinkWish:
        said = self.cleaned_data
        return LinkWish(
            notes=said["shows_notes"], numbers=said["shows_numbers"], code=said["shows_code"], profile=said["shows_profile"],
            life=said["life"], password=said["password"], label=said["label"],
        )  # fmt: skip


class PasswordForm(forms.Form):
    password = forms.CharField(max_length=128, required=False, strip=False)
