"""The shop under test: nothing leaves the process, files go to a temporary folder, messages wait for the test to deliver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache

from tests.stitchweb.conveyor import Conveyor


@pytest.fixture(autouse=True)
def shop(settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path / "media"
    settings.STATIC_ROOT = tmp_path
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.ALLOWED_HOSTS = ["testserver", "localhost"]
    # Who sends hundreds of forms in a second is a test; those that are about limits set their own.
    settings.WRITES_PER_MINUTE = settings.UPLOAD_FORMS_PER_MINUTE = settings.LINKS_PER_MINUTE = 10**6
    cache.clear()


@pytest.fixture(autouse=True)
def conveyor(monkeypatch: pytest.MonkeyPatch) -> Conveyor:
    """Takes the broker's place: what is sent waits in `conveyor.messages` until `conveyor.run` delivers it."""
    belt = Conveyor()
    monkeypatch.setattr("stitchweb.runs.dispatch.send", belt.send)
    return belt
