"""Sign-in by other sites: the file that SIGN_IN_PROVIDERS names, in django-allauth's words.

A JSON list of objects, each one app of a provider:

    [{"provider": "github", "client_id": "…", "secret": "…"},
     {"provider": "openid_connect", "provider_id": "acme", "name": "Acme", "client_id": "…", "secret": "…",
      "settings": {"server_url": "https://login.acme.example"}},
     {"provider": "saml", "provider_id": "https://idp.acme.example", "name": "Acme", "client_id": "acme",
      "settings": {"idp": {"entity_id": "https://idp.acme.example", "metadata_url": "https://idp.acme.example/metadata"}}}]
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

KNOWN = ("github", "gitlab", "google", "microsoft", "openid_connect", "saml")


def _fresh(name: str) -> dict[str, Any]:
    """With a proof key (PKCE), so that a code that is caught on its way back is of no use; SAML has no codes."""
    return {"APPS": []} if name == "saml" else {"APPS": [], "OAUTH_PKCE_ENABLED": True}


def providers(file: Path | None) -> dict[str, dict[str, Any]]:
    """SOCIALACCOUNT_PROVIDERS of the file, {} without one. ImproperlyConfigured with a sentence for what is not understood."""
    if file is None:
        return {}
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ImproperlyConfigured(f"SIGN_IN_PROVIDERS names {file}, which cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ImproperlyConfigured(f"SIGN_IN_PROVIDERS names {file}, which is not JSON: {error}.") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ImproperlyConfigured(f"{file} must hold a list of objects, one for each provider.")
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = row.get("provider")
        if name not in KNOWN:
            raise ImproperlyConfigured(f"{file} names the provider {name!r}; known are {', '.join(KNOWN)}.")
        if not row.get("client_id"):
            raise ImproperlyConfigured(f"{file} has no client_id for {name}.")
        if name == "saml" and importlib.util.find_spec("onelogin") is None:
            raise ImproperlyConfigured(f"{file} wants SAML, which needs one more package: pip install 'django-allauth[saml]'.")
        found.setdefault(name, _fresh(name))["APPS"].append({key: value for key, value in row.items() if key != "provider"})
    return found
