"""Addresses of the API, of its page, its client and the page of tokens."""

from __future__ import annotations

from django.urls import path, re_path

from stitchweb.api import views
from stitchweb.api.main import api

urlpatterns = [
    path("api/docs", views.docs, name="api-docs"),
    path("api/client.py", views.client, name="api-client"),
    path("settings/tokens/", views.tokens, name="tokens"),
    path("settings/tokens/<int:pk>/revoke", views.revoke, name="token-revoke"),
    path("api/v1/", views.nowhere, name="api-nowhere"),
    path("api/v1/", api.urls),
    re_path(r"^api/v1/[\s\S]*\Z", views.nowhere, name="api-nowhere"),
]
