"""Addresses of publications below /published/, of what links show below /s/."""

from __future__ import annotations

from django.urls import path

from stitchweb.sharing.views import collections, compare, files, leaderboard, publication, published, shared, shares, talk

urlpatterns = [
    path("published/", published.published, name="published"),
    path("published/new/", publication.publish_page, name="publish"),
    path("published/compare/", compare.compare, name="compare"),
    path("published/leaderboard/", leaderboard.leaderboard, name="leaderboard"),
    path("published/leaderboard/<slug:sha256>/<slug:target>/", leaderboard.of_reference, name="leaderboard-reference"),
    path("published/collections/", collections.collections, name="collections"),
    path("published/collections/<int:pk>/", collections.collection, name="collection"),
    path("published/collections/<int:pk>/delete", collections.remove_collection, name="collection-delete"),
    path("published/collections/<int:pk>/out/<int:publication_pk>", collections.take_from, name="collection-take-out"),
    path("published/<int:pk>/", publication.publication, name="publication"),
    path("published/<int:pk>/edit", publication.edit_page, name="publication-edit"),
    path("published/<int:pk>/withdraw", publication.withdraw_publication, name="publication-withdraw"),
    path("published/<int:pk>/fork", publication.fork_publication, name="publication-fork"),
    path("published/<int:pk>/collect", collections.collect, name="publication-collect"),
    path("published/<int:pk>/comments", talk.add_comment, name="publication-comment"),
    path("published/<int:pk>/comments/<int:comment_pk>/delete", talk.remove_comment, name="publication-comment-delete"),
    path("published/<int:pk>/shares/", shares.shares, name="publication-shares"),
    path("published/<int:pk>/shares/<int:link_pk>/revoke", shares.revoke_share, name="publication-share-revoke"),
    path("published/<int:pk>/bundle.zip", files.bundle_zip, name="publication-zip"),
    path("published/<int:pk>/wheel/<str:name>", files.wheel_file, name="publication-wheel"),
    path("published/<int:pk>/profile/<str:name>", files.profile_file, name="publication-profile-file"),
    path("published/<int:pk>/files/<path:path>", files.file_text, name="publication-file"),
    path("s/<str:token>/", shared.shared, name="shared"),
    path("s/<str:token>/badge.svg", shared.shared_badge, name="shared-badge"),
    path("s/<str:token>/card.svg", shared.shared_card, name="shared-card"),
    path("s/<str:token>/wheel/<str:name>", shared.shared_wheel, name="shared-wheel"),
    path("s/<str:token>/profile/<str:name>", shared.shared_profile_file, name="shared-profile-file"),
    path("s/<str:token>/files/<path:path>", shared.shared_file, name="shared-file"),
    path("robots.txt", shared.robots, name="robots"),
]
