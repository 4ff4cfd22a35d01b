"""Addresses of runs, and of the pages that show programs with their runs."""

from __future__ import annotations

from django.urls import path

from stitchweb.runs import feed
from stitchweb.runs.views import library, page, profiles, status, steer, take_home, upload

urlpatterns = [
    path("", library.library, name="library"),
    path("programs/<int:pk>/", library.program_page, name="program"),
    path("programs/<int:pk>/source", library.source_text, name="program-source"),
    path("suites/<int:pk>/", library.suite_page, name="suite"),
    path("upload/", upload.upload, name="upload"),
    path("status/", status.status, name="status"),
    path("profiles/", profiles.profiles, name="profiles"),
    path("profiles/<int:pk>/", profiles.profile, name="profile"),
    path("profiles/<int:pk>/delete", profiles.profile_delete, name="profile-delete"),
    path("profiles/<int:pk>/files/<str:name>", profiles.profile_file, name="profile-file"),
    path("runs/", page.run_list, name="runs"),
    path("runs/<int:pk>/", page.run_page, name="run"),
    path("runs/<int:pk>/events", feed.events, name="run-events"),
    path("runs/<int:pk>/control", steer.steer, name="run-control"),
    path("runs/<int:pk>/replay", steer.replay_check, name="run-replay"),
    path("runs/<int:pk>/again", steer.again, name="run-again"),
    path("runs/<int:pk>/plan", steer.edit_plan, name="run-plan"),
    path("runs/<int:pk>/candidates/<slug:cid>/diff", page.diff_fragment, name="run-diff"),
    path("runs/<int:pk>/candidates/<slug:cid>/edit", steer.edit_candidate, name="run-edit"),
    path("runs/<int:pk>/candidates/<slug:cid>/take-home.zip", take_home.bundle_zip, name="run-zip"),
    path("runs/<int:pk>/candidates/<slug:cid>/build.log", take_home.build_log, name="run-log"),
    path("runs/<int:pk>/candidates/<slug:cid>/profile/<str:name>", take_home.profile_file, name="run-profile-file"),
    path("runs/<int:pk>/candidates/<slug:cid>/files/<path:path>", take_home.file_text, name="run-file"),
]
