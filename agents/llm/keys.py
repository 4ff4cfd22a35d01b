"""Keys of model services: held by the process, named in states, printed nowhere.

A `ModelChoice` carries the name under which its key was offered here. A shell offers keys (`offer`), the client asks for them
(`key_of`); a name that nobody offered has no key, so a state cannot make this process send what it was not given for that.
"""

from __future__ import annotations

import os
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
