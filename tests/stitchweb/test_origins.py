"""Which pages may open the live stream: scheme, host and port have to be the site's."""

from __future__ import annotations

from typing import Any

import pytest

from stitchweb.core.origins import is_own


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["localhost", "site.example", "[::1]"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://door.example"]


def scope(*origins: str, host: str = "localhost:8000", scheme: str = "ws", **headers: str) -> dict[str, Any]:
    sent = [(b"host", host.encode()), *((b"origin", origin.encode()) for origin in origins)]
    sent += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "websocket", "scheme": scheme, "server": ("127.0.0.1", 8000), "headers": sent}


@pytest.mark.parametrize(
    ("asked", "own"),
    [
        (scope("http://localhost:8000"), True),
        (scope("http://LOCALHOST:8000"), True),
        (scope("http://localhost", host="localhost"), True),
        (scope("http://localhost:80", host="localhost"), True),
        (scope("http://[::1]:8000", host="[::1]:8000"), True),
        (scope("https://site.example", host="site.example", scheme="wss"), True),
        (scope("https://site.example:443", host="site.example", scheme="wss"), True),
        (scope("https://door.example"), True),  # trusted by a setting
        # The same machine, another program: a port is another site.
        (scope("http://localhost:8001"), False),
        (scope("http://localhost"), False),
        (scope("http://localhost:8000", host="localhost:9000"), False),
        (scope("https://localhost:8000"), False),
        (scope("http://site.example", host="site.example", scheme="wss"), False),
        (scope("http://evil.example"), False),
        (scope("http://localhost:8000.evil.example"), False),
        (scope("http://localhost:8000@evil.example"), False),
        (scope("http://evil.example/?http://localhost:8000"), False),
        (scope("http://door.example"), False),
        # A name that was made to lead to this machine, asked for by its own page.
        (scope("http://evil.example:8000", host="evil.example:8000"), False),
        (scope("null"), False),
        (scope(""), False),
        (scope("http://localhost:port"), False),
        (scope("http://[::1", host="localhost:8000"), False),
        (scope(), False),
        (scope("http://localhost:8000", "http://evil.example"), False),
    ],
)
def test_an_origin_is_the_sites_own_with_scheme_host_and_port(asked: dict[str, Any], own: bool) -> None:
    assert is_own(asked) is own


@pytest.mark.parametrize(("told", "own"), [("https", True), ("http", False), ("", False)])
def test_behind_a_proxy_the_scheme_is_what_the_proxy_says(settings: Any, told: str, own: bool) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert is_own(scope("https://site.example", host="site.example", x_forwarded_proto=told)) is own


def test_without_a_proxy_nobody_says_the_scheme() -> None:
    assert not is_own(scope("https://site.example", host="site.example", x_forwarded_proto="https"))
