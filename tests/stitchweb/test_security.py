"""The site's own guards: settings of production, headers, cookies; and that docs/security.md names tests that there are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as site
from django.test import Client

from stitchweb.teams.services import make_login_link
from tests.conftest import World

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "security.md"


def manage(env: dict[str, str], data: Path, *command: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}  # noqa: TID251
    env = kept | env | {"DATA_DIR": str(data)}
    return subprocess.run(
        [sys.executable, "manage.py", *command], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120
    )


def in_production(tmp_path: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A manage.py command with the settings that docs/security.md asks of a site that others reach."""
    return manage({"HTTPS": "1", "HSTS_SUBDOMAINS": "1", "ALLOWED_HOSTS": "stitch.example"} | more, tmp_path, *command)


def test_djangos_own_check_of_production_settings_finds_nothing(tmp_path: Path) -> None:
    done = in_production(tmp_path, "check", "--deploy", "--fail-level", "WARNING")
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout + done.stderr


def test_over_https_cookies_and_plain_requests_are_as_they_should_be(tmp_path: Path) -> None:
    asked = (
        "from django.conf import settings; from django.test import Client; c = Client(); s = settings;"
        "plain = c.get('/runs/', headers={'host': 'stitch.example'});"
        "job = c.post('/jobs/1/claim', headers={'host': 'stitch.example'});"
        "page = c.get('/login/', headers={'host': 'stitch.example'}, secure=True); cookie = page.cookies[s.CSRF_COOKIE_NAME];"
        "print(plain.status_code, plain['Location'], job.status_code);"
        "print(page['Strict-Transport-Security']);"
        "print(s.SESSION_COOKIE_NAME, s.SESSION_COOKIE_SECURE, s.SESSION_COOKIE_HTTPONLY, s.SESSION_COOKIE_SAMESITE);"
        "print(cookie.key, cookie['secure'], cookie['samesite'])"
    )
    assert in_production(tmp_path, "migrate", "--verbosity", "0").returncode == 0
    done = in_production(
        tmp_path, "shell", "--no-imports", "-v0", "-c", asked, DEBUG="1"
    )  # so that no static files need be collected
    assert done.stdout.splitlines() == [
        "301 https://stitch.example/runs/ 401",
        "max-age=31536000; includeSubDomains; preload",
        "__Host-sessionid True True Lax",
        "__Host-csrftoken True Lax",
    ], done.stderr


def test_a_host_that_is_every_host_stops_the_start(tmp_path: Path) -> None:
    done = manage({"ALLOWED_HOSTS": "*"}, tmp_path, "check")
    assert done.returncode != 0
    assert "Name the hosts" in done.stderr


@pytest.mark.django_db
def test_every_answer_carries_the_policy_and_no_shared_cache_keeps_it(world: World, client: Client) -> None:
    client.force_login(world.owner)
    for path in ("/", "/login/", "/nowhere/", "/account/", "/health/", f"/programs/{world.revision.program_id}/source"):
        answer = client.get(path)
        policy = dict(part.split(" ", 1) for part in answer["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == "'none'", path
        assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'", path
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'", path
        assert "unsafe" not in answer["Content-Security-Policy"], path
        assert answer["X-Content-Type-Options"] == "nosniff", path
        assert answer["X-Frame-Options"] == "DENY", path
        assert answer["Referrer-Policy"] == "same-origin", path
        assert answer["Cross-Origin-Opener-Policy"] == "same-origin", path
        assert "no-cache" in answer["Cache-Control"] or "no-store" in answer["Cache-Control"], path


@pytest.mark.django_db
def test_a_form_of_another_site_is_refused(world: World) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.owner)
    answer = client.post("/teams/choose", {"team": ""})
    assert answer.status_code == 403


@pytest.mark.django_db
def test_a_link_to_sign_in_leaks_no_address_and_gives_a_new_session(world: World, client: Client) -> None:
    client.get("/login/")
    client.session["before"] = True
    before = client.session.session_key
    answer = client.get(make_login_link(world.owner))
    assert answer["Referrer-Policy"] == "no-referrer"
    assert client.session.session_key != before


@pytest.mark.django_db
def test_what_people_upload_is_never_served_as_a_page_or_a_script(world: World, client: Client) -> None:
    client.force_login(world.owner)
    answer = client.get(f"/programs/{world.revision.program_id}/source")
    assert answer["Content-Type"].startswith("text/plain")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert not any(str(site.MEDIA_ROOT) in str(folder) for folder in site.STATICFILES_DIRS)


def rows() -> list[list[str]]:
    """The rows of the threats: what, guard, tests."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    found = [line.strip().strip("|").split(" | ") for line in lines if line.startswith("| ")]
    return [row for row in found if len(row) == 3 and row[0].strip(" -:") not in ("", "threat")]


def test_every_threat_names_a_test_that_there_is() -> None:
    lacking = []
    for threat, _, proofs in rows():
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", proofs)
        if not named:
            lacking.append(f"{threat}: names no test")
        for file, test in named:
            path = ROOT / file
            if not path.is_file() or not re.search(rf"^(async )?def {test}\(", path.read_text(encoding="utf-8"), re.M):
                lacking.append(f"{threat}: {file}::{test} is not there")
    assert lacking == []
    assert len(rows()) > 25


def test_the_vault_of_settings_stays_closed_in_debug(settings: Any) -> None:
    from django.views.debug import get_default_exception_reporter_filter

    shown = get_default_exception_reporter_filter().get_safe_settings()
    for name in ("SECRET_KEY", "MODEL_KEYS_SECRET", "EMAIL_HOST_PASSWORD"):
        assert shown[name] == "********************"
