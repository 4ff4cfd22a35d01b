"""What every contract shares: immutability, strictness, one canonical JSON form and its digest."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import BaseModel, ConfigDict


class Contract(BaseModel):
    """An immutable message. Unknown fields are refused; NaN and infinity travel as strings."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class BlobRef(Contract):
    """Points at stored bytes by content. `size` in bytes."""

    sha256: str
    size: int


def canonical_json(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces. Contracts are dumped first."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any) -> str:
    """SHA-256, in hex, of bytes as they are or of the canonical JSON of anything else."""
    data = value if isinstance(value, bytes) else canonical_json(value).encode()
    return hashlib.sha256(data).hexdigest()
