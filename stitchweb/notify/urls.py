"""Addresses of notifications and web hooks."""

from __future__ import annotations

from django.urls import path

from stitchweb.notify import views

urlpatterns = [
    path("notifications/", views.notifications, name="notifications"),
    path("notifications/bell", views.bell, name="bell"),
    path("notifications/read", views.read_all, name="notifications-read"),
    path("notifications/<int:pk>/", views.follow, name="notification"),
    path("settings/notifications/", views.settings_page, name="notification-settings"),
    path("settings/hooks/", views.hooks, name="hooks"),
    path("settings/hooks/<slug:slug>/", views.team_hooks, name="team-hooks"),
    path("settings/hooks/<slug:slug>/<int:pk>/", views.hook, name="hook"),
    path("settings/hooks/<slug:slug>/<int:pk>/remove", views.remove, name="hook-remove"),
    path("settings/hooks/<slug:slug>/<int:pk>/test", views.test, name="hook-test"),
    path("settings/hooks/<slug:slug>/<int:pk>/deliveries/<int:delivery>/again", views.again, name="hook-again"),
]
