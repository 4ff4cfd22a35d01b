"""A model server for tests: real HTTP on loopback that speaks OpenAI's chat protocol and plays a script, errors on cue.

    with ModelServer([Say("Hello"), Refuse(429, "slow down")]) as server:
        ... server.url, server.requests

A script's last reply is played again and again. A reply may also be a function of the request's body. The list of models is
there by `models`, also by a page instead of an API, another base, TLS, or another clock.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

MODEL = "scripted-1"


@dataclass(frozen=True)
class Say:
    """An answer. `usage` None: the server counts nothing. `pause_s` lies between pieces; `cut`: the line drops after the text,
    before the end is said. `streams` False: one JSON document, whatever was asked. `calls`: tools by name, with arguments."""

    text: str
    finish: str | None = "stop"
    usage: tuple[Any, Any] | None = (100, 20)
    thinking: str = ""
    refusal: str = ""
    tools: bool = False
    calls: tuple[tuple[str, str], ...] = ()
    pieces: int = 8
    pause_s: float = 0.0
    cut: bool = False
    streams: bool = True


@dataclass(frozen=True)
class Refuse:
    """An error status with OpenAI's body around `message`; with `body`, those bytes as they are."""

    status: int
    message: str = ""
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True)
class Raw:
    """These bytes as the body of a stream."""

    body: bytes


@dataclass(frozen=True)
class Silence:
    """Nothing for so many seconds, then the line drops."""

    seconds: float


Reply = Say | Refuse | Raw | Silence
Scripted = Reply | Callable[[dict[str, Any]], Reply]


class ModelServer:
    """Serves on a free port of the loopback while it is entered. Keeps each body in `requests`, each key in `keys`.

    `models`: rows of its list, None: it has none. `page`: what it says to other GETs. `base`: where its API is. `tls`: speaks
    https. `ahead_s`: of its clock before ours. `listing`: the reply to a request for the list, where it is no list.
    """

    def __init__(
        self,
        script: Iterable[Scripted],
        models: Iterable[Mapping[str, Any]] | None = ({"id": MODEL, "object": "model"},),
        page: bytes = b"<!doctype html><title>There is nothing here.</title>",
        base: str = "/v1",
        tls: ssl.SSLContext | None = None,
        ahead_s: float = 0.0,
        listing: Refuse | None = None,
    ) -> None:
        self._script = list(script)
        self.models = None if models is None else list(models)
        self.page, self.base, self.ahead_s, self.listing, self.tls = page, base, ahead_s, listing, tls
        self._lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.ended = threading.Event()
        server = self

        class Handler(_Handler):
            world = server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self._http.server_address[1]}{self.base}"

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.ended.set()
        self._http.shutdown()
        self._http.server_close()

    def take(self, body: dict[str, Any], key: str) -> Reply:
        """The reply that is due; files the request."""
        with self._lock:
            self.requests.append(body)
            self.keys.append(key)
            due = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        return due(body) if callable(due) else due


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    world: ModelServer

    def log_message(self, format: str, *args: Any) -> None:
        return

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string((timestamp or time.time()) + self.world.ahead_s)

    def do_GET(self) -> None:
        self.close_connection = True
        world = self.world
        if self.path != f"{world.base}/models" or world.models is None:
            self._whole(404, world.page, "text/html" if world.page.startswith(b"<") else "application/json")
        elif world.listing is not None:
            self._play(world.listing, stream=False)
        else:
            self._whole(200, json.dumps({"object": "list", "data": world.models}).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if self.path != f"{self.world.base}/chat/completions":
            self._whole(404, b"<html>There is nothing here.</html>", "text/html")
            return
        reply = self.world.take(body, self.headers.get("Authorization", ""))
        self.close_connection = True
        try:
            self._play(reply, bool(body.get("stream")))
        except (BrokenPipeError, ConnectionResetError):
            return  # whoever asked has gone

    def _play(self, reply: Reply, stream: bool) -> None:
        match reply:
            case Silence():
                self.world.ended.wait(reply.seconds)
                self.connection.shutdown(socket.SHUT_RDWR)
            case Refuse():
                error = {"error": {"message": reply.message, "type": "error", "code": reply.code or None}}
                self._whole(
                    reply.status, reply.body if reply.body is not None else json.dumps(error).encode(), headers=reply.headers
                )
            case Raw():
                self._begin(200, "text/event-stream")
                self.wfile.write(reply.body)
            case Say() if stream and reply.streams:
                self._streamed(reply)
            case Say():
                self._whole(200, json.dumps(_document(reply)).encode())

    def _streamed(self, reply: Say) -> None:
        self._begin(200, "text/event-stream")
        size = max(1, -(-len(reply.text) // reply.pieces))
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        if reply.thinking:
            deltas.append({"reasoning_content": reply.thinking})
        if reply.refusal:
            deltas.append({"refusal": reply.refusal})
        if reply.tools:
            call = {
                "index": 0,
                "id": "call-1",
                "type": "function",
                "function": {"name": "bash", "arguments": '{"command": "ls"}'},
            }
            deltas.append({"tool_calls": [call]})
        deltas += _cut_calls(reply.calls)
        deltas += [{"content": reply.text[at : at + size]} for at in range(0, len(reply.text), size)]
        for delta in deltas:
            self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            if reply.pause_s:
                time.sleep(reply.pause_s)
        if reply.cut:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish}]})
        if reply.usage:
            self._event({"choices": [], "usage": _usage(reply.usage)})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, more: dict[str, Any]) -> None:
        event = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, **more}
        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        self.wfile.flush()

    def _whole(self, status: int, body: bytes, kind: str = "application/json", headers: Mapping[str, str] = {}) -> None:
        self._begin(status, kind, {"Content-Length": str(len(body)), **headers})
        self.wfile.write(body)

    def _begin(self, status: int, kind: str, headers: Mapping[str, str] = {}) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Connection": "close", **headers}.items():
            self.send_header(name, value)
        self.end_headers()


def _cut_calls(calls: tuple[tuple[str, str], ...]) -> list[dict[str, Any]]:
    """Calls as a stream brings them: the name first, then the arguments in two pieces."""
    found: list[dict[str, Any]] = []
    for n, (name, given) in enumerate(calls):
        half = len(given) // 2
        found.append(
            {"tool_calls": [{"index": n, "id": f"call-{n}", "type": "function", "function": {"name": name, "arguments": ""}}]}
        )
        found += [{"tool_calls": [{"index": n, "function": {"arguments": part}}]} for part in (given[:half], given[half:])]
    return found


def _usage(usage: tuple[Any, Any]) -> dict[str, Any]:
    total = sum(part for part in usage if isinstance(part, int))
    return {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": total}


def _document(reply: Say) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.calls:
        message["tool_calls"] = [{"type": "function", "id": f"call-{n}", "function": {"name": name, "arguments": given}}
                                 for n, (name, given) in enumerate(reply.calls)]  # fmt: skip
    document: dict[str, Any] = {
        "id": "c-1", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish}],
    }  # fmt: skip
    return document | ({"usage": _usage(reply.usage)} if reply.usage else {})
