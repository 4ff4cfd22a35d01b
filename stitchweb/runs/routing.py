"""The WebSocket addresses."""

from __future__ import annotations

from django.urls import path, re_path

from stitchweb.runs.consumers import nowhere, watch

websocket_urlpatterns = [path("ws/runs/<int:pk>/", watch), re_path("", nowhere)]
