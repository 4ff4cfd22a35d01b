"""Addresses of the gallery."""

from __future__ import annotations

from django.urls import path

from stitchweb.gallery import views

urlpatterns = [
    path("gallery/", views.gallery, name="gallery"),
    path("gallery/<slug:name>/", views.gallery_class, name="gallery-class"),
]
