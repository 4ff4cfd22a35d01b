"""Addresses of models, prompts, and of what runs asked."""

from __future__ import annotations

from django.urls import path

from stitchweb.studio.views import models, prompts, providers, questions

urlpatterns = [
    path("models/", models.first_team, name="models"),
    path("models/<slug:slug>/", models.overview, name="team-models"),
    path("models/<slug:slug>/defaults", models.defaults, name="model-defaults"),
    path("models/<slug:slug>/providers/new", providers.new, name="provider-new"),
    path("models/<slug:slug>/providers/<slug:ident>/", providers.edit, name="provider"),
    path("models/<slug:slug>/providers/<slug:ident>/key", providers.key, name="provider-key"),
    path("models/<slug:slug>/providers/<slug:ident>/remove", providers.remove, name="provider-remove"),
    path("models/<slug:slug>/providers/<slug:ident>/models/new", models.new, name="model-new"),
    path("models/<slug:slug>/<int:pk>/", models.edit, name="model"),
    path("models/<slug:slug>/<int:pk>/remove", models.remove, name="model-remove"),
    path("models/<slug:slug>/<int:pk>/test", models.test, name="model-test"),
    path("models/<slug:slug>/prompts/", prompts.prompts, name="prompts"),
    path("models/<slug:slug>/prompts/<slug:name>/", prompts.edit, name="prompt"),
    path("runs/<int:pk>/questions/", questions.questions, name="run-questions"),
    path("runs/<int:pk>/questions/<int:seq>/", questions.question, name="run-question"),
]
