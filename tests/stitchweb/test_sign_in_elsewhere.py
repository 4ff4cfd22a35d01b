"""Signing in by another site, through the file that SIGN_IN_PROVIDERS names, with a real OpenID provider on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.stitchweb.oidc_provider import provider

ROOT = Path(__file__).resolve().parents[2]
ALL = ("github", "gitlab", "google", "microsoft")

# In a process of its own: which providers there are is read when the site starts.
VISIT = """
import json, sys, urllib.error, urllib.request
from django.core.management import call_command
call_command("migrate", verbosity=0)
from django.test import Client
from stitchweb.teams.services import create_user
class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args):
        return None
client = Client(headers={"host": "localhost"})
if sys.argv[1] == "known":
    create_user("ada@example.org", name="Ada")
begin = client.get("/account/by/oidc/acme/login/")
policy = begin["Content-Security-Policy"]
away = client.post("/account/by/oidc/acme/login/")["Location"]
try:
    urllib.request.build_opener(Stay).open(away)
except urllib.error.HTTPError as answer:
    back = answer.headers["Location"]
place = back.split("localhost", 1)[1]
answer = client.get(place)
page = client.get(answer["Location"]) if answer.status_code == 302 else answer
print(json.dumps({
    "policy": policy, "away": away, "leads": answer.get("Location", ""), "in": client.session.get("_auth_user_id"),
    "page": page.content.decode(), "again": client.get(place).status_code,
}))
"""


def told(file: Path, rows: list[dict[str, Any]]) -> dict[str, str]:
    file.write_text(json.dumps(rows))
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}  # noqa: TID251
    return kept | {
        "DATA_DIR": str(file.parent),
        "SIGN_IN_PROVIDERS": str(file),
        "DEBUG": "1",
        "DJANGO_SETTINGS_MODULE": "stitchweb.settings",
    }


def visited(tmp_path: Path, base: str, who: str) -> dict[str, Any]:
    row = {
        "provider": "openid_connect", "provider_id": "acme", "name": "Acme", "client_id": "stitch", "secret": "shared",
        "settings": {"server_url": base, "verified_email": True, "email_authentication": True},
    }  # fmt: skip
    script = f"import django; django.setup()\n{VISIT}"
    env = told(tmp_path / "providers.json", [row]) | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script, who], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_somebody_with_that_address_here_is_let_in(tmp_path: Path) -> None:
    with provider("ada@example.org") as base:
        seen = visited(tmp_path, base, "known")
    assert seen["away"].startswith(f"{base}/authorize?")
    assert "form-action 'self' https:" in seen["policy"]
    assert seen["leads"] == "/"
    assert seen["in"]
    assert seen["again"] != 500  # the code and the state were good once


def test_a_stranger_from_there_still_needs_an_invitation(tmp_path: Path) -> None:
    with provider("stranger@example.org") as base:
        seen = visited(tmp_path, base, "unknown")
    assert seen["in"] is None
    assert "by invitation" in seen["page"]


@pytest.mark.parametrize("names", [ALL], ids=["all"])
def test_every_known_provider_has_its_rows(tmp_path: Path, names: tuple[str, ...]) -> None:
    rows = [{"provider": name, "client_id": "a", "secret": "b"} for name in names]
    env = told(tmp_path / "providers.json", rows)
    done = subprocess.run([sys.executable, "manage.py", "check"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    assert "W001" not in done.stderr
    assert done.returncode == 0, done.stderr
