"""Addresses of reviews, below /review/."""

from __future__ import annotations

from django.urls import path

from stitchweb.review.views import items, projects, queue, rubrics, settling

urlpatterns = [
    path("", queue.home, name="review"),
    path("new/", projects.new_project, name="review-new"),
    path("projects/<int:pk>/", projects.project_page, name="review-project"),
    path("projects/<int:pk>/agreement/", projects.agreement_page, name="review-agreement"),
    path("projects/<int:pk>/labels.jsonl", projects.labels_file, name="review-labels"),
    path("projects/<int:pk>/next", queue.next_item, name="review-next"),
    path("projects/<int:pk>/change", projects.change_project, name="review-change"),
    path("projects/<int:pk>/fill", projects.fill_project, name="review-fill"),
    path("projects/<int:pk>/people", projects.people_of_project, name="review-people"),
    path("projects/<int:pk>/items/<int:item_pk>/gold", projects.gold_of_item, name="review-gold"),
    path("projects/<int:pk>/adjudicators", settling.adjudicators_of_project, name="review-adjudicators"),
    path("projects/<int:pk>/disagreement/", settling.disagreement, name="review-disagreement"),
    path("projects/<int:pk>/disagreement/next", settling.next_dispute, name="review-next-dispute"),
    path("projects/<int:pk>/items/<int:item_pk>/labels/", settling.labels_of_item, name="review-labels-of"),
    path("projects/<int:pk>/items/<int:item_pk>/labels/code", settling.labels_code, name="review-labels-code"),
    path("items/<int:pk>/", items.item_page, name="review-item"),
    path("items/<int:pk>/revise", items.revise_page, name="review-revise"),
    path("items/<int:pk>/code", items.code_panel, name="review-code"),
    path("rubric/", rubrics.newest, name="rubric"),
    path("rubric/<slug:key>/<int:version>/", rubrics.rubric, name="rubric-version"),
]
