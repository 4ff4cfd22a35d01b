"""The WebSocket addresses."""

from __future__ import annotations

from django.urls import path

from stitchweb.runs.consumers import watch

websocket_urlpatterns = [path("ws/runs/<int:pk>/", watch)]
