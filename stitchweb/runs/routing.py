"""The WebSocket addresses."""

from __future__ import annotations

from channels.auth import AuthMiddlewareStack
from django.urls import path, re_path

from stitchweb.runs.consumers import accepted, nowhere, watch

websocket_urlpatterns = [path("ws/runs/<int:pk>/", accepted(AuthMiddlewareStack(watch))), re_path("", nowhere)]
