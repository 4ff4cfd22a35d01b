"""What can be learnt of a model server without asking its models anything: is it there, whose is it, what does it offer.

One request for its list of models. What comes of it is a `Seen`, or a `ModelError` that says what, why and what to do.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from agents.llm.doors import Door
from agents.llm.failures import Asked, ModelError
from agents.llm.guard import Forbidden

if TYPE_CHECKING:
    import httpx2

PATIENCE_S = 10.0
MOST_BODY = 2_000_000  # bytes; hosted services list thousands of models
_WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length", "n_ctx")


@dataclass(frozen=True)
class Seen:
    """`models` that the server offers, by name, with the tokens that each takes in where it says so; None: it lists none.
    `ahead_s`: how far the server's clock is ahead of ours; None where it does not tell."""

    models: Mapping[str, int | None] | None = None
    ahead_s: float | None = None


def probe(api_base: str, door: Door, patience_s: float = PATIENCE_S) -> Seen:
    """What the server at a base URL says of itself. ModelError when it cannot be one that a model is asked at."""
    asked = Asked("", api_base, door.name, door.secret)
    with _client(api_base, door, patience_s) as client:
        status, kind, body, ahead = _got(client, f"{api_base.rstrip('/')}/models", asked, door)
        if status in (401, 403):
            key = f"the key {door.name}" if door.secret else "a call without a key"
            raise ModelError(
                "key", f"{_capital(asked.where)} refuses {key} (status {status}). Check the key and what it may use."
            )
        if (models := _models(body)) is not None and status == 200:
            return Seen(models, ahead)
        for better in _others(api_base):
            if better == api_base.rstrip("/"):
                continue
            found = _got(client, f"{better}/models", asked, door)
            if found[0] in (401, 403) or (found[0] == 200 and _models(found[2]) is not None):
                raise ModelError("address", f"The API is not at {api_base} but at {better}: give that as the base URL.")
        if _is_page(kind, body):
            raise ModelError("address", f"{api_base} is a web page and no API (status {status}). The base URL of an API "
                             "usually ends with /v1; the server's documentation names it.")  # fmt: skip
    return Seen(None, ahead)


def _others(api_base: str) -> Iterator[str]:
    """Base URLs that may have been meant."""
    parts = urlsplit(api_base)
    path = parts.path.rstrip("/")
    for end in ("/chat/completions", "/completions", "/models"):
        if path.endswith(end):
            yield urlunsplit((parts.scheme, parts.netloc, path.removesuffix(end), "", ""))
    for other in (f"{path}/v1", "/v1", "/api/v1", "/openai/v1"):
        yield urlunsplit((parts.scheme, parts.netloc, other, "", ""))


@contextmanager
def _client(api_base: str, door: Door, patience_s: float) -> Iterator[httpx2.Client]:
    import httpx2  # with LiteLLM's client of OpenAI's protocol, which speaks HTTP through it

    if door.guard is None:
        with httpx2.Client(timeout=patience_s, follow_redirects=False) as client:
            yield client
        return
    try:
        guarded = door.guard.client(api_base, patience_s)
    except Forbidden as error:
        raise ModelError("address", str(error)) from error
    with guarded:
        yield guarded


def _got(client: httpx2.Client, url: str, asked: Asked, door: Door) -> tuple[int, str, bytes, float | None]:
    """Status, kind and beginning of the body, and how far the server's clock is ahead. ModelError when there is no answer."""
    import httpx2

    headers = {"Authorization": f"Bearer {door.secret.reveal()}"} if door.secret else {}
    try:
        with client.stream("GET", url, headers=headers) as response:
            body = b""
            for piece in response.iter_bytes():
                body += piece
                if len(body) > MOST_BODY:
                    break
            if 300 <= response.status_code < 400:
                there = response.headers.get("location", "")
                way = f": {there.partition('?')[0][:200]}" if there else ""
                raise ModelError("address", f"{_capital(asked.where)} sends elsewhere{way}. That is not followed, since the "
                                 "key would go along: give that URL as the base URL.")  # fmt: skip
            return response.status_code, response.headers.get("content-type", ""), body, _ahead(response.headers.get("date"))
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        raise unreachable(error, asked.api_base) from error


def unreachable(error: BaseException, api_base: str) -> ModelError:
    """Why there is no line to a server: the causes of an exception of its HTTP client, as one sentence with a way out."""
    parts = urlsplit(api_base)
    host = parts.netloc
    words, kinds = "", list[type[BaseException]]()
    one: BaseException | None = error
    while one is not None and len(kinds) < 12:
        if isinstance(one, socket.gaierror):
            return ModelError("address", f"There is no server named {parts.hostname}: the name has no address. Check its "
                              "spelling, and whether this machine can look names up.")  # fmt: skip
        if isinstance(one, ssl.SSLCertVerificationError):
            return ModelError("address", _certificate(one, host))
        if isinstance(one, ssl.SSLError) and parts.scheme == "https":
            plain = urlunsplit(("http", *parts[1:]))
            return ModelError("address", f"{host} does not speak TLS as https:// needs it ({one.reason or 'no reason'}). Where "
                              f"it is a server without TLS, the base URL is {plain}.")  # fmt: skip
        if isinstance(one, ConnectionRefusedError):
            return ModelError("server", f"Nothing listens at {host}: the connection was refused. Start the server, or give the "
                              "port that it is on.")  # fmt: skip
        words, kinds = f"{words} {one}", [*kinds, type(one)]
        one = one.__cause__ or one.__context__
    names = " ".join(kind.__name__ for kind in kinds)
    if "ConnectTimeout" in names:
        return ModelError("server", f"{host} cannot be reached: no answer to the call for a connection. A firewall may hold it "
                          "back, or the address is wrong.")  # fmt: skip
    if "Timeout" in names:
        return ModelError("timeout", f"{host} takes connections but says nothing. The server may still be loading a model, or "
                          "hang: look at its log.")  # fmt: skip
    if "RemoteProtocolError" in names or "ReadError" in names:
        secure = urlunsplit(("https", *parts[1:]))
        hint = f"Where it wants TLS, the base URL is {secure}." if parts.scheme == "http" else "Look at its log."
        return ModelError("address", f"What listens at {host} does not answer as a web server does. {hint}")
    return ModelError("server", f"{host} cannot be reached: {' '.join(words.split())[:160]}. Is it on this network?")


def _certificate(error: ssl.SSLCertVerificationError, host: str) -> str:
    """Codes are those of OpenSSL's X509_V_ERR."""
    code, why = error.verify_code, error.verify_message or "no reason"
    if code in (9, 10):
        begun = "is not valid yet" if code == 9 else "has expired"
        return (
            f"The certificate of {host} {begun}, by this machine's clock, which says {time.strftime('%Y-%m-%d %H:%M')} UTC. "
            "Set the clock if that is wrong; otherwise the server needs a new certificate."
        )
    if code in (62, 64):
        return f"The certificate of {host} is for another name ({why}). Give the name that it was made for."
    return (
        f"The certificate of {host} was signed by nobody whom this machine knows ({why}). Name its authority's file in "
        "SSL_CERT_FILE, or take http:// on a network that you trust."
    )


def _ahead(date: str | None) -> float | None:
    try:
        return parsedate_to_datetime(date or "").timestamp() - time.time()
    except (TypeError, ValueError):
        return None


def _models(body: bytes) -> dict[str, int | None] | None:
    """The names in a list of models as OpenAI's protocol has it; None where the body is none."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    rows = value.get("data") if isinstance(value, dict) else value
    if not isinstance(rows, list):
        return None
    return {row["id"][:300]: _window(row) for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)}


def _window(row: Mapping[str, Any]) -> int | None:
    """How many tokens a model takes in, under any of the names that servers give that."""
    more = row.get("meta")
    for words in (row, more if isinstance(more, dict) else {}):
        for name in _WINDOWS:
            if isinstance(size := words.get(name), int) and 0 < size < 10**9:
                return size
    return None


def _is_page(kind: str, body: bytes) -> bool:
    return "html" in kind.lower() or body[:200].lstrip().lower().startswith((b"<!doctype html", b"<html"))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
