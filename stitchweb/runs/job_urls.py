"""The job endpoint, for runners."""

from __future__ import annotations

urlpatterns: list = []
