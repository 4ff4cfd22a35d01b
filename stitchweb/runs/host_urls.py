"""Addresses that runner hosts speak to."""

from __future__ import annotations

from django.urls import path

from stitchweb.runs import host_views

urlpatterns = [
    path("join", host_views.join, name="runner-join"),
    path("present", host_views.present, name="runner-present"),
]
