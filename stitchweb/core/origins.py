"""Which pages may open a WebSocket: this site's alone, by scheme, host and port, as Django's CSRF check tells them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
_PORTS = {"http": 80, "https": 443}


def same_origin(application: Application) -> Application:
    """Refuses the handshake of a page of another origin. A browser sends the visitor's cookies along whoever asks."""

    async def guarded(scope: Message, receive: Receive, send: Send) -> None:
        if is_own(scope):
            await application(scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.close"})  # before it was accepted: the browser is answered with 403

    return guarded


def is_own(scope: Message) -> bool:
    """Whether the one Origin of a handshake is this site's, or one of `CSRF_TRUSTED_ORIGINS`. Without one it is nobody's."""
    headers = [(name.lower(), value.decode("latin-1")) for name, value in scope.get("headers", ())]
    origins = [value for name, value in headers if name == b"origin"]
    if len(origins) != 1:
        return False
    request = HttpRequest()
    request.META = {f"HTTP_{name.decode('latin-1').upper().replace('-', '_')}": value for name, value in headers}
    host, port = scope.get("server") or ("", None)
    request.META |= {"SERVER_NAME": host, "SERVER_PORT": str(port or 80)}
    secure = scope.get("scheme") in ("wss", "https") or request.is_secure()
    try:
        own = f"{'https' if secure else 'http'}://{request.get_host()}"
    except DisallowedHost:
        return False
    asked = _parts(origins[0])
    return asked is not None and any(asked == _parts(origin) for origin in (own, *settings.CSRF_TRUSTED_ORIGINS))


def _parts(origin: str) -> tuple[str, str, int | None] | None:
    """Scheme, host and port, the scheme's own where none is named; None for what is no origin."""
    try:
        parts = urlsplit(origin)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or parts.path or parts.query or parts.fragment or parts.username:
        return None
    return parts.scheme, parts.hostname, port
