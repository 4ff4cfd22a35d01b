"""How a trainer asks the service. Standard library: it runs inside of whatever trains."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agents.training.service.contracts import Batch, Item, Priced, Prices
from agents.training.service.server import Door

WAIT_S = 6 * 3600.0  # for one batch: hundreds of candidates are timed one after another


class NoService(Exception):
    """The service cannot be asked. The message is a sentence."""


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Client:
    """Asks the service behind a door. Each call opens a connection of its own, so that any number of ranks may ask at once."""

    def __init__(self, door: Door, wait_s: float = WAIT_S) -> None:
        self._door, self._wait_s = door, wait_s

    @classmethod
    def at(cls, path: Path) -> Client:
        """Through a door file. Raises NoService."""
        try:
            return cls(Door.model_validate_json(path.read_bytes()))
        except (OSError, ValueError) as error:
            raise NoService(
                f"The door file {path} of the reward service cannot be read ({error}); start the service."
            ) from None

    def price(self, items: Sequence[Item]) -> list[Priced]:
        """One answer per item, in order. Raises NoService where the service is gone or refuses the batch."""
        told = self._ask("POST", "/price", Batch(items=tuple(items)).model_dump_json().encode())
        return list(Prices.model_validate(told).results)

    def health(self) -> dict[str, Any]:
        """Terms, judge and outcomes so far. Raises NoService."""
        return self._ask("GET", "/health", None)

    def _ask(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        where = urlsplit(self._door.address)
        line: http.client.HTTPConnection
        if where.scheme == "unix":
            line = _Unix(where.path, self._wait_s)
        else:
            line = http.client.HTTPConnection(where.hostname or "", where.port, timeout=self._wait_s)
        try:
            headers = {"Authorization": f"Bearer {self._door.token}", "Content-Type": "application/json"}
            line.request(method, path, body, headers)
            answer = line.getresponse()
            told = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoService(f"The reward service at {self._door.address} does not answer ({error}); look at its log.") from None
        finally:
            line.close()
        if answer.status != 200:
            raise NoService(str(told.get("error") or f"The reward service answered {answer.status}."))
        return dict(told)
