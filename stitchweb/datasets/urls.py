"""Addresses of datasets, judges and rewards, below /datasets/."""

from __future__ import annotations

from django.urls import path

from stitchweb.datasets.views import judged, judges, releases, rewards

urlpatterns = [
    path("", releases.first_team, name="datasets"),
    path("runs/<int:pk>/", judged.run_judged, name="run-judged"),
    path("<slug:slug>/", releases.releases, name="team-datasets"),
    path("<slug:slug>/releases/<str:name>/", releases.release, name="release"),
    path("<slug:slug>/releases/<str:name>/cancel", releases.cancel_release, name="release-cancel"),
    path("<slug:slug>/releases/<str:name>/export", releases.export, name="release-export"),
    path("<slug:slug>/exports/<int:pk>/cancel", releases.cancel_export, name="export-cancel"),
    path("<slug:slug>/exports/<int:pk>/file", releases.export_file, name="export-file"),
    path("<slug:slug>/references/", releases.references, name="references"),
    path("<slug:slug>/rewards/", rewards.rewards, name="rewards"),
    path("<slug:slug>/judges/", judges.judges, name="judges"),
    path("<slug:slug>/judges/<int:pk>/", judges.judge, name="judge"),
    path("<slug:slug>/judges/<int:pk>/cancel", judges.cancel_judge, name="judge-cancel"),
    path("<slug:slug>/judges/<int:pk>/choose", judges.choose, name="judge-choose"),
]
