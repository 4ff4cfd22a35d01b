"""Addresses of the job endpoint."""

from __future__ import annotations

from django.urls import path

from stitchweb.runs import jobs

urlpatterns = [
    path("<int:pk>/claim", jobs.claim, name="job-claim"),
    path("<int:pk>/progress", jobs.progress, name="job-progress"),
    path("<int:pk>/report", jobs.report, name="job-report"),
    path("<int:pk>/artifacts/<str:name>", jobs.artifact, name="job-artifact"),
    path("<int:pk>/library", jobs.library, name="job-library"),
]
