"""All addresses. Pages are in each app's `urls`; the job endpoint and health stand here."""

from __future__ import annotations

from django.urls import include, path

from stitchweb.core.health import health

urlpatterns = [
    path("health/", health, name="health"),
    path("jobs/", include("stitchweb.runs.job_urls")),
    path("runners/", include("stitchweb.runs.host_urls")),
    path("", include("stitchweb.teams.urls")),
    path("", include("stitchweb.gallery.urls")),
    path("", include("stitchweb.studio.urls")),
    path("", include("stitchweb.operate.urls")),
    path("", include("stitchweb.notify.urls")),
    path("", include("stitchweb.api.urls")),
    path("review/", include("stitchweb.review.urls")),
    path("datasets/", include("stitchweb.datasets.urls")),
    path("", include("stitchweb.sharing.urls")),
    path("", include("stitchweb.runs.urls")),
]

handler400 = "stitchweb.core.errors.bad_request"
handler403 = "stitchweb.core.errors.forbidden"
handler429 = "stitchweb.core.errors.too_many"
handler500 = "stitchweb.core.errors.server_error"
