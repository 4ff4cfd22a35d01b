"""Keys of model services: held by the process, named in states, printed nowhere.

A `ModelChoice` carries the name under which its key was offered here. A shell offers keys (`offer`), the client asks for them
(`key_of`); a name that nobody offered has no key, so a state cannot make this process send what it was not given for that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NoReturn

HIDDEN = "[key]"
_SHORTEST = 6  # characters; anything shorter would take harmless words out of a text that it is hidden in


class NoKey(Exception):
    """There is no key where one was named. The message is a sentence with a way out."""


class Secret:
    """A text that shows itself only to who asks by `reveal()`: not when printed, formatted, compared, copied or pickled."""

    __slots__ = ("_name", "_text")

    def __init__(self, name: str, text: str) -> None:
        self._name, self._text = name, text

    def reveal(self) -> str:
        return self._text

    def hidden_in(self, text: str) -> str:
        """The text without the key, whatever else it says."""
        return text.replace(self._text, HIDDEN) if len(self._text) >= _SHORTEST else text

    def __repr__(self) -> str:
        return f"<the key {self._name}>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a key is not written anywhere")


# What the keys of well-known services look like, in programs and their comments as anywhere.
_LOOKS_LIKE_A_KEY = re.compile(
    r"\b(?:sk-[\w-]{16,}|gsk_\w{20,}|xai-\w{20,}|hf_\w{20,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|"
    r"xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,})"
)


def without_secrets(text: str) -> str:
    """The text without what looks like somebody's key."""
    return _LOOKS_LIKE_A_KEY.sub(HIDDEN, text)


class Veil:
    """Hides a key in a text that comes in pieces, also where it is cut between two of them."""

    def __init__(self, secret: Secret | None) -> None:
        self._secret = secret if secret and len(secret.reveal()) >= _SHORTEST else None
        self._kept = ""  # may be the beginning of the key

    def over(self, piece: str) -> str:
        """What can be shown after this piece."""
        if self._secret is None:
            return piece
        text = self._secret.hidden_in(self._kept + piece)
        key = self._secret.reveal()
        begun = next((n for n in range(min(len(key) - 1, len(text)), 0, -1) if text.endswith(key[:n])), 0)
        self._kept = text[len(text) - begun :]
        return text[: len(text) - begun]

    def rest(self) -> str:
        """What was held back and turned out to be no key."""
        kept, self._kept = self._kept, ""
        return kept


_offered: dict[str, Secret] = {}


def offer(name: str, secret: Secret) -> None:
    """From now on the key of this name; an earlier one of the name is replaced."""
    _offered[name] = secret


def key_of(name: str) -> Secret | None:
    """The key of a name; None without a name. NoKey when nobody offered one."""
    if not name:
        return None
    try:
        return _offered[name]
    except KeyError:
        raise NoKey(f"There is no key named {name!r} in this process; start the run with the key in place.") from None


def take_from_environment(variable: str) -> None:
    """Offers the key that lies in an environment variable, under the variable's name, and takes it out of the environment, so
    that nothing this process starts inherits it. NoKey when the variable is not set or empty."""
    text = os.environ.pop(variable, "").strip()
    if not text:
        raise NoKey(f"The environment variable {variable} holds no key; export it, or leave --api-key-env out.")
    if not text.isprintable() or not text.isascii():
        raise NoKey(f"The environment variable {variable} holds characters that no key has; it may be cut or wrapped.")
    offer(variable, Secret(variable, text))


# The price list that comes with the package instead of one from the network, and no reading of .env files in the work folder.
_QUIET: Mapping[str, str] = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}


def quieten_litellm() -> None:
    """What has to stand in the environment before LiteLLM is imported."""
    os.environ.update(_QUIET)
