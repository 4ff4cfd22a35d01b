"""Keys at rest: sealed with AES-GCM under a key derived from `MODEL_KEYS_SECRET`, each bound to its team and provider."""

from __future__ import annotations

import base64
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

_NONCE = 12  # bytes, as the mode wants it


class Unsealable(Exception):
    """The sealed text was not made here, or not for this provider."""


def seal(team_id: int, ident: str, text: str) -> str:
    """The text as only `unseal` with the same names, under the same setting, reads it."""
    nonce = secrets.token_bytes(_NONCE)
    return base64.b64encode(nonce + _cipher().encrypt(nonce, text.encode(), _bound(team_id, ident))).decode()


def unseal(team_id: int, ident: str, sealed: str) -> str:
    """The text. Unsealable where the setting is another now, or the sealed text belongs to another provider."""
    try:
        data = base64.b64decode(sealed, validate=True)
        return _cipher().decrypt(data[:_NONCE], data[_NONCE:], _bound(team_id, ident)).decode()
    except (InvalidTag, ValueError) as error:
        raise Unsealable from error


def _cipher() -> AESGCM:
    derived = HKDF(SHA256(), length=32, salt=None, info=b"stitchweb model keys, 1")
    return AESGCM(derived.derive(settings.MODEL_KEYS_SECRET.encode()))


def _bound(team_id: int, ident: str) -> bytes:
    return f"{team_id}/{ident}".encode()
