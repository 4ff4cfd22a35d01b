"""The service's HTTP: `POST /price` with a batch, `GET /health`. On loopback or a Unix socket, each request with the token.

Whoever may read the door file may use the service; it lies in a folder of the run, readable by this user alone.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socket
import socketserver
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agents.training.service.contracts import MOST_BODY, Batch, Prices
from agents.training.service.price import Pricer
from gpu_runner.contracts import Contract

IDLE_S = 60.0  # that a connection may say nothing while it is read from


class Door(Contract):
    """Where a service is and what opens it: `address` is http://127.0.0.1:PORT or unix:/PATH."""

    address: str
    token: str

    def write(self, path: Path) -> None:
        """For this user's eyes alone; whole or not at all."""
        part = path.with_name(f".{path.name}.{os.getpid()}")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.write(self.model_dump_json())
        part.replace(path)


class _Handler(BaseHTTPRequestHandler):
    server: Service
    protocol_version = "HTTP/1.1"
    timeout = IDLE_S

    def do_GET(self) -> None:
        if self._refused():
            return
        if self.path != "/health":
            self._say(404, {"error": "There is GET /health and POST /price."})
            return
        pricer = self.server.pricer
        judge = pricer.rater.name if pricer.rater else ""
        told = {"terms": pricer.terms.model_dump(mode="json"), "judge": judge, "outcomes": dict(pricer.counts)}
        self._say(200, told | {"measured": pricer.measurer.measured})

    def do_POST(self) -> None:
        if self._refused():
            return
        if self.path != "/price":
            self._say(404, {"error": "There is GET /health and POST /price."})
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MOST_BODY:
            self.close_connection = True
            self._say(413, {"error": f"A batch needs a Content-Length of at most {MOST_BODY} bytes; send fewer candidates."})
            return
        body = self.rfile.read(int(length))
        try:
            batch = Batch.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            self._say(400, {"error": f"The batch cannot be read: {where}: {first['msg']}."})
            return
        prices = Prices(results=tuple(self.server.pool.map(self.server.pricer.price, batch.items)))
        self._say(200, prices.model_dump(mode="json"))

    def _refused(self) -> bool:
        given = self.headers.get("Authorization", "")
        if hmac.compare_digest(given.encode(errors="replace"), f"Bearer {self.server.token}".encode()):
            return False
        self.close_connection = True
        self._say(401, {"error": "The token is missing or wrong; read it from the door file of this service."})
        return True

    def _say(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


class Service(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Listens on a free port of loopback, or on a Unix socket where one is named."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, pricer: Pricer, unix: Path | None = None) -> None:
        self.pricer, self.token, self.unix = pricer, secrets.token_urlsafe(32), unix
        self.pool = ThreadPoolExecutor(pricer.terms.parallel, thread_name_prefix="price")
        self.address_family = socket.AF_UNIX if unix else socket.AF_INET
        address: Any = str(unix) if unix else ("127.0.0.1", 0)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        if self.unix is None:
            super().server_bind()
            return
        before = os.umask(0o177)  # nobody else may connect, not even between bind and chmod
        try:
            self.socket.bind(str(self.unix))
        finally:
            os.umask(before)

    def get_request(self) -> tuple[Any, Any]:
        connection, address = self.socket.accept()
        return connection, address or ("local", 0)  # a Unix peer has no address, and the handler wants one

    @property
    def door(self) -> Door:
        where = f"unix:{self.unix}" if self.unix else f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        return Door(address=where, token=self.token)


@contextmanager
def serving(pricer: Pricer, unix: Path | None = None) -> Iterator[Door]:
    """The service in threads of this process; everything it started has ended when this returns."""
    service = Service(pricer, unix)
    thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.1}, name="reward-service", daemon=True)
    thread.start()
    try:
        yield service.door
    finally:
        service.shutdown()
        service.server_close()
        service.pool.shutdown(wait=False, cancel_futures=True)
        pricer.measurer.close()
        if unix:
            unix.unlink(missing_ok=True)
