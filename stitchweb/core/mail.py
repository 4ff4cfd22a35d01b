"""EMAIL_URL in Django's words. Without one, mail is written to the log of the process that sends it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

_PORTS = {"smtp": 587, "smtps": 465}


@dataclass(frozen=True)
class MailServer:
    """What Django's SMTP backend needs; `backend` is the console's where no server is named."""

    backend: str = "django.core.mail.backends.console.EmailBackend"
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = ""
    starttls: bool = False
    tls: bool = False


def mail_server(url: str) -> MailServer:
    """Known forms: `smtp://user:password@host:587` (STARTTLS), `smtps://user:password@host:465`, and "" for none.

    `smtp://host:25?plain=yes` speaks without encryption, to a server on the same machine.
    """
    if not url:
        return MailServer()
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ImproperlyConfigured(
            "EMAIL_URL is not understood. Write smtp://user:password@host:587 or smtps://user:password@host:465."
        )
    return MailServer(
        backend="django.core.mail.backends.smtp.EmailBackend",
        host=parts.hostname,
        port=parts.port or _PORTS[parts.scheme],
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        starttls=parts.scheme == "smtp" and parts.query != "plain=yes",
        tls=parts.scheme == "smtps",
    )


def mail_works() -> bool:
    """Whether this site sends mail at all: whoever runs it has named a server."""
    return not settings.EMAIL_BACKEND.endswith((".dummy.EmailBackend", ".console.EmailBackend"))
