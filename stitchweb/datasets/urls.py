"""Addresses of datasets, judges and rewards, below /datasets/."""

from __future__ import annotations

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
