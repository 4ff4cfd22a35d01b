"""Addresses of reviews, below /review/."""

from __future__ import annotations

from django.urls import path

from stitchweb.review.views import data, hunches, items, projects, queue, rubrics, settling

urlpatterns = [
    path("", queue.home, name="review"),
    path("new/", projects.new_project, name="review-new"),
    path("projects/<int:pk>/", projects.project_page, name="review-project"),
    path("projects/<int:pk>/agreement/", projects.agreement_page, name="review-agreement"),
    path("projects/<int:pk>/labels.jsonl", data.labels_file, {"form": "jsonl"}, name="review-labels"),
    path("projects/<int:pk>/labels.csv", data.labels_file, {"form": "csv"}, name="review-labels-csv"),
    path("projects/<int:pk>/probes.jsonl", data.probes_file, name="review-probes"),
    path("projects/<int:pk>/data/", data.data_page, name="review-data"),
    path("projects/<int:pk>/data/import", data.import_candidates, name="review-import"),
    path("projects/<int:pk>/data/gold", data.bring_gold, name="review-bring-gold"),
    path("projects/<int:pk>/data/rubric", data.change_rubric, name="review-change-rubric"),
    path("projects/<int:pk>/trail/", data.trail, name="review-trail"),
    path("projects/<int:pk>/calibration/", data.calibration, name="review-calibration"),
    path("projects/<int:pk>/calibration/<int:number>/clear", data.clear_reviewer, name="review-clear"),
    path("projects/<int:pk>/next", queue.next_item, name="review-next"),
    path("projects/<int:pk>/change", projects.change_project, name="review-change"),
    path("projects/<int:pk>/fill", projects.fill_project, name="review-fill"),
    path("projects/<int:pk>/people", projects.people_of_project, name="review-people"),
    path("projects/<int:pk>/items/<int:item_pk>/gold", projects.gold_of_item, name="review-gold"),
    path("projects/<int:pk>/adjudicators", settling.adjudicators_of_project, name="review-adjudicators"),
    path("projects/<int:pk>/disagreement/", settling.disagreement, name="review-disagreement"),
    path("projects/<int:pk>/disagreement/next", settling.next_dispute, name="review-next-dispute"),
    path("projects/<int:pk>/items/<int:item_pk>/labels/", settling.labels_of_item, name="review-labels-of"),
    path("projects/<int:pk>/items/<int:item_pk>/labels/draft", settling.final_draft, name="review-final-draft"),
    path("projects/<int:pk>/items/<int:item_pk>/labels/code", settling.labels_code, name="review-labels-code"),
    path("items/<int:pk>/", items.item_page, name="review-item"),
    path("projects/<int:pk>/items/<int:item_pk>/labels/remark", settling.remark, name="review-remark-reader"),
    path("items/<int:pk>/hunch/", hunches.hunch_page, name="review-hunch"),
    path("items/<int:pk>/hunch/list", hunches.hunch_list, name="review-hunch-list"),
    path("items/<int:pk>/hunch/<int:number>/attach", hunches.attach_hunch, name="review-attach-hunch"),
    path("hunches/<int:pk>/keep", hunches.keep_hunch, name="review-keep-hunch"),
    path("items/<int:pk>/remark", items.remark, name="review-remark"),
    path("items/<int:pk>/revise/draft", items.revise_draft, name="review-revise-draft"),
    path("items/<int:pk>/revise", items.revise_page, name="review-revise"),
    path("items/<int:pk>/profile", items.profile_panel, name="review-profile"),
    path("items/<int:pk>/code", items.code_panel, name="review-code"),
    path("rubric/", rubrics.newest, name="rubric"),
    path("rubric/<slug:key>/<int:version>/", rubrics.rubric, name="rubric-version"),
]
